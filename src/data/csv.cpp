#include "data/csv.h"

#include "core/error.h"
#include "core/printable.h"
#include "core/read_file.h"
#include "data/csv_labels.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

namespace ddp {
namespace {

// The status of the row's file, or nothing if it is missing.
std::optional<struct stat> status_of(int folder, const LabelRow& row, const std::string& name) {
  const auto refuse = [&](const std::string& why) {
    fail(Exit::data, "{}, line {}: {}: {}", name, row.line, printable(row.path), why);
  };
  struct stat status;
  if (::fstatat(folder, row.path.c_str(), &status, 0) != 0) {
    if (errno != ENOENT && errno != ENOTDIR) refuse(std::strerror(errno));
    return std::nullopt;
  }
  if (!S_ISREG(status.st_mode)) refuse(fmt::format("is {}, not a picture", kind_of_file(status.st_mode)));
  return status;
}

}  // namespace

PictureLists list_csv(const std::filesystem::path& file, const std::filesystem::path& root,
                      const std::function<void()>& progress) {
  constexpr int64_t kMostBytes = 100'000'000, kShown = 20, kRowsOfProgress = 256;
  const std::string name = printable(file.native());
  LabelTable table = parse_labels(file, read_whole_file(file, kMostBytes));
  const OpenFile folder(::open(root.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  require(folder.get() >= 0, Exit::data, "{}: {}; --data-path names the folder of the data", printable(root.native()),
          errno_text(errno));

  std::unordered_map<std::string_view, int32_t> labels;
  for (const std::string& label : table.classes) labels.emplace(label, static_cast<int32_t>(labels.size()));
  PictureListBuilder train(table.classes), val(table.classes);
  int64_t missing = 0;
  std::string shown;
  for (const LabelRow& row : table.rows) {
    if (row.line % kRowsOfProgress == 0) progress();
    if (const auto status = status_of(folder.get(), row, name))
      (row.val ? val : train)
          .add(row.path, labels.at(row.label), status->st_size,
               int64_t{status->st_mtim.tv_sec} * 1'000'000'000 + status->st_mtim.tv_nsec);
    else if (missing++ < kShown)
      shown += fmt::format("\n  line {}: {}", row.line, printable(row.path));
  }
  require(missing == 0, Exit::data, "{}: {} of {} files are not in {}:{}{}", name, missing, table.rows.size(),
          printable(root.native()), shown, missing > kShown ? "\n  ..." : "");
  return {std::move(train).finish(), std::move(val).finish(), std::move(table.notes)};
}

}  // namespace ddp
