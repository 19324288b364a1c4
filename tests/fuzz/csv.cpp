// An input is a CSV list of pictures.
#include "data/csv_labels.h"
#include "tests/fuzz/check.h"
#include "tests/fuzz/repeat.h"

#include <algorithm>
#include <string_view>

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const ddp::LinearTime limit(size);
  ddp::read_or_refuse(ddp::Exit::data, [&] {
    const ddp::LabelTable table = ddp::parse_labels("file", {reinterpret_cast<const char*>(data), size});
    for (const ddp::LabelRow& row : table.rows) {
      const std::string path = "/" + row.path + "/";
      ddp::check(!row.path.empty() && path.find("//") == path.npos && path.find("/../") == path.npos &&
                     path.find("/./") == path.npos && path.find('\0') == path.npos,
                 "a path stays in the folder");
      ddp::check(std::ranges::count(table.classes, row.label) == 1, "each label is of a class");
    }
  });
  return 0;
}
