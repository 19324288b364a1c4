#include "data/folder.h"

#include "core/error.h"
#include "core/printable.h"
#include "data/folder_scan.h"
#include "data/picture_name.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace ddp {
namespace {

namespace fs = std::filesystem;
using Level = FolderScan::Level;
using Names = std::vector<std::string>;

const Names kValidation = {"val", "validation", "valid", "test"};

bool contains(const Names& names, const std::string& name) { return std::ranges::find(names, name) != names.end(); }

class FolderLister {
 public:
  FolderLister(const fs::path& root, const std::function<void()>& progress) : root_(root), scan_(root, progress) {}

  PictureLists list() {
    find_layout();
    find_classes();
    lists_.train = pictures(train_, classes_);
    lists_.val = val_.empty() ? PictureListBuilder(classes_).finish() : pictures(val_, scan_.level(val_).folders);
    lists_.val_part = val_;
    require(lists_.train.size() > 0, Exit::data, "{}: no class folder holds a .jpg, .jpeg or .png file{}",
            scan_.shown(train_), what_else());
    warn_of_empty_classes();
    for (std::string& note : conversion_notes(scan_.unread(), root_text())) lists_.notes.push_back(std::move(note));
    if (scan_.others() > 0) note("{} files in the class folders are no pictures and are not read", scan_.others());
    return std::move(lists_);
  }

 private:
  template <class... Args>
  void note(fmt::format_string<Args...> format, Args&&... args) {
    lists_.notes.push_back(fmt::format(format, std::forward<Args>(args)...));
  }

  // A folder `train` that holds folders is a part of the data, not a class. So is a lone one.
  void find_layout() {
    const Level top = scan_.level("");
    Names parts, others;
    for (const std::string& name : kValidation)
      if (contains(top.folders, name)) parts.push_back(name);
    for (const std::string& name : top.folders)
      if (name != "train" && !contains(kValidation, name)) others.push_back(name);
    if (!contains(top.folders, "train")) {
      for (const std::string& part : parts)
        require(scan_.level(part).folders.empty(), Exit::data,
                "{} holds {} but no train: put the class folders of the training data into {}; to evaluate a network, "
                "give --data-path {}",
                scan_.shown(""), part, scan_.shown("train"), scan_.shown(part));
      return;
    }
    if (scan_.level("train").folders.empty() && !others.empty()) return;
    train_ = "train";
    if (!others.empty()) note("warning: not read, because they are not in train: the folders {}", first_names(others));
    for (const std::string& part : parts) {
      const Level level = scan_.level(part);
      if (!val_.empty()) {
        note("validation data are those of {}; {} is not read", val_, part);
      } else if (level.folders.empty() && level.pictures > 0) {
        require(part == "test", Exit::data, "{} holds {} pictures (such as {}) but no class folders{}",
                scan_.shown(part), level.pictures, printable(level.picture), expected());
        note("warning: {} holds {} pictures without class folders and is not read", scan_.shown(part), level.pictures);
      } else {
        val_ = part;
      }
    }
  }

  void find_classes() {
    const Level level = scan_.level(train_);
    require(!level.folders.empty() || level.pictures == 0, Exit::data,
            "{} holds {} pictures (such as {}) but no class folders{}", scan_.shown(train_), level.pictures,
            printable(level.picture), expected());
    require(!level.folders.empty(), Exit::data, "{} holds no class folders{}", scan_.shown(train_), expected());
    if (level.pictures > 0)
      note("warning: {} pictures directly in {} have no class and are not read", level.pictures, scan_.shown(train_));
    classes_ = level.folders;
    if (val_.empty()) return;
    Names unknown;
    for (const std::string& name : scan_.level(val_).folders)
      if (!contains_class(name)) unknown.push_back(name);
    require(unknown.empty(), Exit::data, "{} has classes that {} lacks: {}; the classes are those of train",
            scan_.shown(val_), scan_.shown(train_), first_names(unknown));
  }

  bool contains_class(const std::string& name) const {
    return std::binary_search(classes_.begin(), classes_.end(), name);
  }

  // The pictures of these classes in a part of the data.
  PictureList pictures(const std::string& part, const Names& classes) {
    PictureListBuilder builder(classes_);
    for (const std::string& name : classes) {
      const auto label = std::ranges::lower_bound(classes_, name) - classes_.begin();
      for (const FolderScan::Picture& p : scan_.pictures(part.empty() ? name : part + "/" + name))
        builder.add(p.path, static_cast<int32_t>(label), p.bytes, p.mtime_ns);
    }
    return std::move(builder).finish();
  }

  void warn_of_empty_classes() {
    std::vector<bool> used(classes_.size());
    for (int64_t i = 0; i < lists_.train.size(); ++i) used[lists_.train.label(i)] = true;
    Names empty;
    for (size_t i = 0; i < classes_.size(); ++i)
      if (!used[i]) empty.push_back(classes_[i]);
    if (!empty.empty())
      note("warning: classes without training pictures, which keep their label: {}", first_names(empty));
    if (!val_.empty() && lists_.val.size() == 0) note("warning: {} holds no pictures", scan_.shown(val_));
  }

  std::string root_text() const { return root_.native(); }

  std::string what_else() const {
    std::string text;
    for (const std::string& line : conversion_notes(scan_.unread(), root_text())) text += "\n  " + line;
    if (scan_.others() > 0) text += fmt::format("\n  {} other files", scan_.others());
    return text;
  }

  std::string expected() const {
    return fmt::format(
        "; expected is a folder for each class, such as\n  {0}/train/cat/1.jpg\n  {0}/train/dog/2.jpg\n"
        "  {0}/val/cat/3.jpg\nor without train and val, or a file with --labels FILE.csv",
        scan_.shown(""));
  }

  const fs::path root_;
  FolderScan scan_;
  std::string train_, val_;  // folders of the parts; no train_: the root; no val_: no validation data
  Names classes_;
  PictureLists lists_;
};

}  // namespace

PictureLists list_folder(const fs::path& root, const std::function<void()>& progress) {
  return FolderLister(root, progress).list();
}

}  // namespace ddp
