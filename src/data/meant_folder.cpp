#include "data/meant_folder.h"

#include "core/printable.h"
#include "data/detect.h"
#include "data/known_names.h"

#include <algorithm>
#include <deque>

namespace ddp {
namespace {

constexpr int kMostDepth = 4;
constexpr size_t kMostShown = 3;

struct Place {
  std::string path;
  int depth;
};

std::string below(const std::string& folder, const std::string& name) {
  return folder.empty() ? name : folder + "/" + name;
}

class Search {
 public:
  explicit Search(const FolderScan& scan) : scan_(scan) {}

  std::vector<std::string> run() {
    std::deque<Place> places;
    const auto add_folders_of = [&](const Place& place) {
      if (place.depth == kMostDepth) return;
      for (const std::string& name : level(place.path).folders)
        places.push_back({below(place.path, name), place.depth + 1});
    };
    add_folders_of({"", 0});
    for (; !places.empty() && left_ > 0; places.pop_front())
      if (!keep(places.front().path)) add_folders_of(places.front());
    std::vector<std::string>& found = with_parts_.empty() ? with_classes_ : with_parts_;
    found.resize(std::min(found.size(), kMostShown));
    return found;
  }

 private:
  FolderScan::Level level(const std::string& folder) {
    scan_.progress();
    --left_;
    return scan_.level(folder);
  }

  // Whether the folder is a data set.
  bool keep(const std::string& folder) {
    const FolderScan::Level here = level(folder);
    const bool has_training = std::ranges::any_of(here.folders, [&](const std::string& name) {
      return split_of(name) == Split::train && has_classes(below(folder, name), level(below(folder, name)));
    });
    if (has_training) return with_parts_.push_back(folder), true;
    const std::string name = folder.substr(folder.rfind('/') + 1);
    if (split_word_of(name) == Split::val) return false;
    if (!has_classes(folder, here) && known_files_in(scan_.full(folder)).empty()) return false;
    with_classes_.push_back(folder);
    return true;
  }

  // Whether two folders hold pictures.
  bool has_classes(const std::string& folder, const FolderScan::Level& here) {
    int classes = 0;
    for (auto name = here.folders.begin(); name != here.folders.end() && classes < 2 && left_ > 0; ++name)
      classes += split_of(*name) == Split::none && level(below(folder, *name)).pictures > 0;
    return classes == 2;
  }

  const FolderScan& scan_;
  std::vector<std::string> with_parts_, with_classes_;
  int left_ = 1'000;  // folders to look at
};

}  // namespace

std::vector<std::string> find_data_sets(const FolderScan& scan) { return Search(scan).run(); }

std::string probably_meant(const FolderScan& scan, const std::vector<std::string>& folders) {
  std::string text = folders.empty() ? "" : "; probably meant:";
  for (const std::string& folder : folders) text += "\n  --data-path " + shell_word(scan.full(folder).native());
  return text;
}

}  // namespace ddp
