#include "app/commands/predict/find_pictures.h"

#include "data/picture_name.h"

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <system_error>
#include <utility>

namespace ddp {
namespace {

namespace fs = std::filesystem;

// Collects the pictures below a folder. A link back to a folder on the way down is passed over.
class Folder {
 public:
  explicit Folder(std::vector<NamedPicture>& pictures) : pictures_(pictures) {}

  void add(const fs::path& folder) {
    struct stat status {};
    if (stat(folder.c_str(), &status) != 0) return;
    const auto [place, is_new] = above_.emplace(status.st_dev, status.st_ino);
    if (!is_new) return;
    std::vector<fs::path> entries;
    std::error_code error;
    for (fs::directory_iterator i(folder, error), end; !error && i != end; i.increment(error))
      if (!i->path().filename().native().starts_with('.')) entries.push_back(i->path());
    std::ranges::sort(entries, {}, [](const fs::path& path) -> const std::string& { return path.native(); });
    for (const fs::path& entry : entries) {
      std::error_code ignored;
      if (fs::is_directory(entry, ignored))
        add(entry);
      else if (has_picture_name(entry.native()))
        pictures_.push_back({entry.native()});
    }
    if (error) pictures_.push_back({folder.native(), "cannot be listed: " + error.message()});
    above_.erase(place);
  }

 private:
  std::vector<NamedPicture>& pictures_;
  std::set<std::pair<dev_t, ino_t>> above_;  // the folder that is listed, and those above it
};

void add_named(const std::string& name, std::vector<NamedPicture>& pictures) {
  std::error_code ignored;
  if (!fs::is_directory(name, ignored)) {
    pictures.push_back({name});
    return;
  }
  const size_t before = pictures.size();
  Folder(pictures).add(name);
  if (pictures.size() == before)
    pictures.push_back({name, "a folder without pictures: no name in it ends in .jpg, .jpeg or .png"});
}

}  // namespace

std::vector<NamedPicture> find_pictures(const std::vector<std::string>& names, std::istream& list) {
  std::vector<NamedPicture> pictures;
  for (const std::string& name : names) {
    if (name != "-") {
      add_named(name, pictures);
      continue;
    }
    for (std::string line; std::getline(list, line);)
      if (!line.empty()) add_named(line, pictures);
  }
  return pictures;
}

}  // namespace ddp
