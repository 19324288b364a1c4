#include "data/csv.h"

#include "core/error.h"
#include "core/printable.h"
#include "core/read_file.h"
#include "data/csv_labels.h"
#include "data/folder_scan.h"
#include "data/meant_folder.h"
#include "data/unicode.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

namespace ddp {
namespace {

// Each name of the path in a Unicode normal form.
std::string path_in_form(std::string_view path, std::string (*form)(std::string_view)) {
  std::string result;
  for (size_t begin = 0; begin <= path.size();) {
    const size_t end = std::min(path.find('/', begin), path.size());
    if (begin > 0) result += '/';
    result += form(path.substr(begin, end - begin));
    begin = end + 1;
  }
  return result;
}

// The status of the row's file, or nothing if it is missing. A file system may have the path in another normal form;
// then the row gets that.
std::optional<struct stat> status_of(int folder, LabelRow& row, const std::string& name) {
  const auto refuse = [&](const std::string& why) {
    fail(Exit::data, "{}, line {}: {}: {}", name, row.line, printable(row.path), why);
  };
  struct stat status;
  const auto found = [&](const std::string& path) {
    if (::fstatat(folder, path.c_str(), &status, 0) == 0) return true;
    if (errno != ENOENT && errno != ENOTDIR) refuse(std::strerror(errno));
    return false;
  };
  if (!found(row.path)) {
    const std::string forms[] = {path_in_form(row.path, composed), path_in_form(row.path, decomposed)};
    const auto there =
        std::ranges::find_if(forms, [&](const std::string& path) { return path != row.path && found(path); });
    if (there == std::end(forms)) return std::nullopt;
    row.path = *there;
  }
  if (!S_ISREG(status.st_mode)) refuse(fmt::format("is {}, not a picture", kind_of_file(status.st_mode)));
  return status;
}

// Where the first of these files, which are not in the root, were probably meant to be: in a folder at most two levels
// below it. Empty: nowhere.
std::string meant_root(const std::vector<std::string>& files, const std::filesystem::path& root,
                       const std::function<void()>& progress) {
  constexpr size_t kMostFolders = 1'000;
  const FolderScan scan(root, progress);
  std::vector<std::string> folders = {""};
  for (size_t i = 0; i < folders.size() && folders.size() < kMostFolders; ++i) {
    progress();
    const std::string folder = folders[i];
    std::error_code none;
    const auto has = [&](const std::string& file) { return std::filesystem::exists(scan.full(folder) / file, none); };
    if (!folder.empty() && std::ranges::all_of(files, has)) return probably_meant(scan, {folder});
    if (std::ranges::count(folder, '/') < 1)
      for (const std::string& name : scan.level(folder).folders)
        folders.push_back(folder.empty() ? name : folder + "/" + name);
  }
  return "";
}

}  // namespace

PictureLists list_csv(const std::filesystem::path& file, const std::filesystem::path& root,
                      const std::function<void()>& progress, int least_classes) {
  constexpr int64_t kMostBytes = 100'000'000, kShown = 20, kRowsOfProgress = 256;
  const std::string name = printable(file.native());
  LabelTable table = parse_labels(file, read_whole_file(file, kMostBytes), least_classes);
  const OpenFile folder(::open(root.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  require(folder.get() >= 0, Exit::data, "{}: {}; --data-path names the folder of the data", printable(root.native()),
          errno_text(errno));

  std::unordered_map<std::string_view, int32_t> labels;
  for (const std::string& label : table.classes) labels.emplace(label, static_cast<int32_t>(labels.size()));
  PictureListBuilder train(table.classes), val(table.classes);
  int64_t missing = 0;
  std::string shown;
  std::vector<std::string> first;  // of the missing files
  for (LabelRow& row : table.rows) {
    if (row.line % kRowsOfProgress == 0) progress();
    if (const auto status = status_of(folder.get(), row, name)) {
      (row.val ? val : train)
          .add(row.path, labels.at(row.label), status->st_size,
               int64_t{status->st_mtim.tv_sec} * 1'000'000'000 + status->st_mtim.tv_nsec);
    } else if (missing++ < kShown) {
      shown += fmt::format("\n  line {}: {}", row.line, printable(row.path));
      first.push_back(row.path);
    }
  }
  if (missing > 0)
    fail(Exit::data, "{}: {} of {} files are not in {}:{}{}{}", name, missing, table.rows.size(),
         printable(root.native()), shown, missing > kShown ? "\n  ..." : "",
         missing == std::ssize(table.rows) ? meant_root(first, root, progress) : "");
  return {std::move(train).finish(), std::move(val).finish(), std::move(table.notes)};
}

}  // namespace ddp
