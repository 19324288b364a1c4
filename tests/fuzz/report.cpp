// An input is the metrics.jsonl of a run, or if it begins with "class" its confusion.csv. The page of what can be read
// is small, and no text of the run is an element of it.
#include "core/read_file.h"
#include "report/assets.h"
#include "report/page.h"
#include "tests/fuzz/check.h"
#include "tests/temp_folder.h"

#include <string>
#include <vector>

namespace ddp {

const std::string_view report::kStyle = "", report::kScript = "";

namespace {

const TempFolder folder;

void make_page(const std::string& metrics, const std::string& confusion) {
  folder.write("metrics.jsonl", metrics);
  const std::vector<report::RunRecord> runs(2, report::read_run(folder.path(), "run", {}));
  for (const size_t count : {1, 2}) {
    std::vector<report::RunRecord> shown(runs.begin(), runs.begin() + static_cast<int64_t>(count));
    if (!confusion.empty()) shown[0].confusion = report::parse_confusion(confusion, "file");
    const std::string page = report::page(shown, {.version = "1", .time = "now", .nonce = "abc"});
    check(page.size() < 1'000'000, "a page is small");
    check(page.find("<evil") == page.npos, "no text is an element");
  }
}

}  // namespace
}  // namespace ddp

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const ddp::LinearTime limit(size);
  const std::string text(reinterpret_cast<const char*>(data), size);
  const bool matrix = text.starts_with("class");
  ddp::read_or_refuse(ddp::Exit::data, [&] { ddp::make_page(matrix ? "" : text, matrix ? text : ""); });
  return 0;
}
