#include "app/commands/predict/find_pictures.h"

#include "core/printable.h"
#include "data/known_names.h"
#include "data/picture_name.h"

#include <fmt/format.h>
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
  explicit Folder(FoundPictures& found) : found_(found) {}

  void add(const fs::path& folder) {
    struct stat status {};
    if (stat(folder.c_str(), &status) != 0) return;
    const auto [place, is_new] = above_.emplace(status.st_dev, status.st_ino);
    if (!is_new) return;
    std::vector<fs::path> entries;
    std::error_code error;
    for (fs::directory_iterator i(folder, error), end; !error && i != end; i.increment(error))
      if (!is_hidden(i->path().filename().native())) entries.push_back(i->path());
    std::ranges::sort(entries, {}, [](const fs::path& path) -> const std::string& { return path.native(); });
    for (const fs::path& entry : entries) {
      std::error_code ignored;
      if (fs::is_directory(entry, ignored)) {
        if (!is_system_folder(entry.filename().native())) add(entry);
      } else if (has_picture_name(entry.native())) {
        found_.pictures.push_back({entry.native()});
      } else {
        (unread_kind(entry.native()).empty() ? found_.others : found_.unread).push_back(entry.native());
      }
    }
    if (error) found_.pictures.push_back({folder.native(), "cannot be listed: " + error.message()});
    above_.erase(place);
  }

 private:
  FoundPictures& found_;
  std::set<std::pair<dev_t, ino_t>> above_;  // the folder that is listed, and those above it
};

void add_named(const std::string& name, FoundPictures& found) {
  std::vector<NamedPicture>& pictures = found.pictures;
  std::error_code ignored;
  if (!fs::is_directory(name, ignored)) {
    pictures.push_back({name});
    return;
  }
  const size_t before = pictures.size();
  Folder(found).add(name);
  if (pictures.size() == before)
    pictures.push_back({name, std::string("a folder without pictures: no name in it ends in ") + kPictureEndings});
}

// Such as "a.tiff, b.tiff, c.bmp and 2 more".
std::string some_of(const std::vector<std::string>& names) {
  constexpr size_t kMostNamed = 3;
  std::string text;
  for (size_t i = 0; i < std::min(names.size(), kMostNamed); ++i) text += (i > 0 ? ", " : "") + printable(names[i]);
  return names.size() > kMostNamed ? fmt::format("{} and {} more", text, names.size() - kMostNamed) : text;
}

}  // namespace

std::string FoundPictures::left_out() const {
  std::string text;
  if (!unread.empty())
    text = fmt::format("{} of a kind that is not read; convert to .jpg or .png: {}",
                       unread.size() == 1 ? "1 picture is" : fmt::format("{} pictures are", unread.size()),
                       some_of(unread));
  if (!others.empty())
    text += fmt::format(
        "{}{} and not read: {}", text.empty() ? "" : "\n",
        others.size() == 1 ? "1 file is no picture" : fmt::format("{} files are no pictures", others.size()),
        some_of(others));
  return text;
}

FoundPictures find_pictures(const std::vector<std::string>& names, std::istream& list) {
  FoundPictures found;
  for (const std::string& name : names) {
    if (name != "-") {
      add_named(name, found);
      continue;
    }
    for (std::string line; std::getline(list, line);)
      if (!line.empty()) add_named(line, found);
  }
  return found;
}

}  // namespace ddp
