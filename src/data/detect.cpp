#include "data/detect.h"

#include "core/error.h"
#include "core/printable.h"
#include "data/cifar.h"
#include "data/folder_scan.h"
#include "data/token_files.h"

#include <algorithm>
#include <string_view>
#include <vector>

namespace ddp {
namespace {

namespace fs = std::filesystem;

struct NameHint {
  std::string_view part, advice;
};
// What a name that contains the part asks for.
constexpr NameHint kHints[] = {{".csv", "name a list of pictures with --labels {}"},
                               {".tar", "unpack {} with tar xf"},
                               {".tgz", "unpack {} with tar xf"},
                               {".zip", "unpack {} with unzip"}};

bool has_idx(const fs::path& folder) {
  std::error_code none;
  return fs::exists(folder / "train-images-idx3-ubyte", none) ||
         fs::exists(folder / "train-images-idx3-ubyte.gz", none);
}

void refuse_python_cifar(const fs::path& folder, const FolderScan& scan) {
  for (const char* file : {"data_batch_1", "cifar-10-batches-py/data_batch_1", "cifar-100-python/train"}) {
    std::error_code none;
    require(!fs::is_regular_file(folder / file, none), Exit::data,
            "{}: is the Python version of CIFAR; download the binary version from "
            "https://www.cs.toronto.edu/~kriz/cifar.html",
            scan.shown(file));
  }
}

}  // namespace

std::string known_files_in(const fs::path& folder) {
  if (!find_cifar(folder, false).empty()) return "cifar10";
  if (!find_cifar(folder, true).empty()) return "cifar100";
  return has_idx(folder) ? "mnist" : "";
}

std::string detect_dataset(const fs::path& folder) {
  std::error_code none;
  if (fs::is_regular_file(folder, none) && token_signs(folder) != TokenSigns::none) return "tokens";
  FolderScan scan(folder);
  if (const std::string known = known_files_in(folder); !known.empty()) return known;
  refuse_python_cifar(folder, scan);
  FolderScan::Level level = scan.level("");
  // Beside pictures, a name alone does not say that a file has tokens.
  const TokenSigns signs = token_signs(folder);
  if (signs == TokenSigns::header || (signs == TokenSigns::name && scan.pictures("").empty())) return "tokens";
  if (!level.folders.empty() || level.pictures > 0) return "folder";

  constexpr size_t kShown = 5;
  level.others.insert(level.others.begin(), level.left_out.begin(), level.left_out.end());
  std::string found, advice;
  for (size_t i = 0; i < std::min(level.others.size(), kShown); ++i)
    found += (i == 0 ? "" : ", ") + printable(level.others[i]);
  if (level.others.size() > kShown) found += fmt::format(" and {} more files", level.others.size() - kShown);
  for (const std::string& name : level.others)
    for (const NameHint& hint : kHints)
      if (advice.empty() && name.find(hint.part) != name.npos)
        advice = "; " + fmt::format(fmt::runtime(hint.advice), printable((folder / name).native()));
  fail(
      Exit::data,
      "{}: holds no data set that --dataset auto knows: found {}; expected are class folders of pictures, the files of "
      "CIFAR-10 or CIFAR-100 (binary version) or MNIST, or token files *.bin with `train` in their names{}",
      scan.shown(""), found.empty() ? "no files" : found, advice);
}

}  // namespace ddp
