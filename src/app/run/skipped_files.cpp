#include "app/run/skipped_files.h"

#include "app/inputs/excluded_pictures.h"
#include "core/durable_file.h"
#include "core/error.h"
#include "core/log.h"

#include <utility>

namespace ddp {

SkippedFiles::SkippedFiles(std::filesystem::path folder, std::function<void()> require_in_place,
                           const std::map<std::string, std::string>& lists)
    : folder_(std::move(folder)), require_in_place_(std::move(require_in_place)) {
  for (const char* part : {"training", "validation"})
    if (const auto list = lists.find(skipped_file(part)); list != lists.end()) lists_.insert(*list);
}

void SkippedFiles::excluded(const std::string& part, const std::vector<BrokenPicture>& broken, int64_t, int64_t) {
  std::string& list = lists_[skipped_file(part)];
  list += lines_of(broken).substr(1) + "\n";
  require_in_place_();
  try {
    replace_file(folder_ / skipped_file(part), list);
  } catch (const Error& e) {  // such as a full disk; the next call writes the whole list
    if (!std::exchange(warned_, true)) Log(0).warn("{}; training continues", e.what());
  }
}

}  // namespace ddp
