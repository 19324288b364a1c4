#include "data/folder.h"

#include "core/error.h"
#include "core/printable.h"
#include "data/folder_scan.h"
#include "data/known_names.h"
#include "data/meant_folder.h"
#include "data/picture_name.h"
#include "data/unicode.h"

#include <algorithm>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace ddp {
namespace {

namespace fs = std::filesystem;
using Level = FolderScan::Level;
using Names = std::vector<std::string>;

struct ClassFolder {
  std::string name, folder;  // the name is the folder's in Unicode normal form C
};

// Which splits lie in a class folder.
struct SplitsInside {
  bool train = false, val = false;                        // as folders of pictures
  bool train_of_folders = false, val_of_folders = false;  // as folders of folders

  // `path`: of a picture, from the class folder on.
  void see(std::string_view path) {
    const size_t end = path.find('/');
    const Split split = end == path.npos ? Split::none : split_of(path.substr(0, end));
    if (split == Split::none) return;
    const bool of_folders = path.find('/', end + 1) != path.npos;
    (split == Split::train ? of_folders ? train_of_folders : train : of_folders ? val_of_folders : val) = true;
  }
};

// The folders with one of these names in any case, in the order of `names`.
Names folders_named(std::span<const std::string_view> names, const Names& folders) {
  Names found;
  for (const std::string_view name : names)
    for (const bool exact : {true, false})
      for (const std::string& folder : folders)
        if ((folder == name) == exact && equal_but_for_case(folder, name)) found.push_back(folder);
  return found;
}

class FolderLister {
 public:
  FolderLister(const fs::path& root, const std::function<void()>& progress, int least_classes)
      : root_(root), scan_(root, progress), least_classes_(least_classes) {}

  PictureLists list() {
    find_layout();
    find_classes();
    require_no_split_names();
    if (std::ssize(classes_) < least_classes_)
      fail(Exit::data, "{} holds only one class folder, {}, and a network learns to tell at least two classes apart{}",
           scan_.shown(train_), printable(classes_.front()), meant());
    lists_.train = pictures(train_, folders_, true);
    lists_.val = val_.empty() ? PictureListBuilder(classes_).finish() : pictures(val_, val_folders_, false);
    lists_.val_part = val_;
    require(lists_.train.size() > 0, Exit::data, "{}: no class folder holds a {} file{}", scan_.shown(train_),
            kPictureEndings, what_else());
    judge_splits_inside();
    judge_empty_classes();
    for (std::string& note : conversion_notes(scan_.unread(), root_text())) lists_.notes.push_back(std::move(note));
    if (scan_.others() > 0) note("{} files in the class folders are no pictures and are not read", scan_.others());
    if (const std::string line = left_out(); !line.empty()) note("{}", line.substr(1));
    if (classes_.size() == 1) lists_.meant = probably_meant(scan_, find_data_sets(scan_));
    return std::move(lists_);
  }

 private:
  template <class... Args>
  void note(fmt::format_string<Args...> format, Args&&... args) {
    lists_.notes.push_back(fmt::format(format, std::forward<Args>(args)...));
  }

  Level level_of(const std::string& part) {
    Level level = scan_.level(part);
    for (const std::string& name : level.left_out) left_out_[part.empty() ? name : part + "/" + name] = name;
    return level;
  }

  // A folder `train` that holds folders is a part of the data, not a class. So is a lone one.
  void find_layout() {
    const Level top = level_of("");
    Names trains = folders_named(kTrainNames, top.folders), others;
    const Names parts = folders_named(kValNames, top.folders);
    for (const std::string& name : top.folders)
      if (split_of(name) == Split::none) others.push_back(name);
    if (trains.empty()) {
      for (const std::string& part : parts)
        require(scan_.level(part).folders.empty(), Exit::data,
                "{} holds {} but no train: put the class folders of the training data into {}; to evaluate a network, "
                "give --data-path {}",
                scan_.shown(""), part, scan_.shown("train"), scan_.shown(part));
      return;
    }
    std::ranges::stable_partition(trains, [&](const std::string& name) { return !scan_.level(name).folders.empty(); });
    if (scan_.level(trains.front()).folders.empty() && !others.empty()) return;
    train_ = trains.front();
    others.insert(others.end(), trains.begin() + 1, trains.end());
    if (!others.empty())
      note("warning: not read, because they are not in {}: the folders {}", train_, first_names(others));
    for (const std::string& part : parts) {
      const Level level = scan_.level(part);
      if (!val_.empty()) {
        note("validation data are those of {}; {} is not read", val_, part);
      } else if (level.folders.empty() && level.pictures > 0) {
        require(equal_but_for_case(part.substr(0, 4), "test"), Exit::data,
                "{} holds {} pictures (such as {}) but no class folders{}", scan_.shown(part), level.pictures,
                printable(level.picture), expected());
        note("warning: {} holds {} pictures without class folders and is not read", scan_.shown(part), level.pictures);
      } else {
        val_ = part;
      }
    }
  }

  void find_classes() {
    const Level level = level_of(train_);
    require(!level.folders.empty() || level.pictures == 0, Exit::data,
            "{} holds {} pictures (such as {}) but no class folders{}", scan_.shown(train_), level.pictures,
            printable(level.picture), expected());
    require(!level.folders.empty(), Exit::data, "{} holds no class folders{}", scan_.shown(train_), expected());
    if (level.pictures > 0)
      note("warning: {} pictures directly in {} have no class and are not read", level.pictures, scan_.shown(train_));
    folders_ = classes_of(train_, level);
    for (const ClassFolder& c : folders_) classes_.push_back(c.name);
    if (val_.empty()) return;
    val_folders_ = classes_of(val_, level_of(val_));
    Names unknown;
    for (const ClassFolder& c : val_folders_)
      if (!std::ranges::binary_search(classes_, c.name)) unknown.push_back(c.name);
    require(unknown.empty(), Exit::data, "{} has classes that {} lacks: {}; the classes are those of {}{}{}",
            scan_.shown(val_), scan_.shown(train_), first_names(unknown), train_, case_differences(unknown, classes_),
            left_out());
  }

  // Sorted by name.
  std::vector<ClassFolder> classes_of(const std::string& part, const Level& level) const {
    std::vector<ClassFolder> classes;
    for (const std::string& folder : level.folders) classes.push_back({composed(folder), folder});
    std::ranges::sort(classes, {}, &ClassFolder::name);
    const auto twice = std::ranges::adjacent_find(classes, {}, &ClassFolder::name);
    if (twice != classes.end())
      fail(Exit::data,
           "{}: two class folders have one name, in two Unicode normal forms: {}; move the pictures of one into the "
           "other",
           scan_.shown(part), shown_with_bytes(twice[0].folder, twice[1].folder));
    return classes;
  }

  void require_no_split_names() const {
    const auto is_split = [](const std::string& name) { return split_of(name) != Split::none; };
    const auto count_words = [&](Split split) { return std::ranges::count(classes_, split, split_word_of); };
    const int64_t train = count_words(Split::train), val = count_words(Split::val);
    const bool words = train_.empty() && train > 0 && val > 0 && train + val == std::ssize(classes_);
    if (!words && !std::ranges::all_of(classes_, is_split)) return;
    fail(Exit::data,
         "{} holds no classes: all its folders have names of splits: {}; the folder of the training data is named "
         "train or training, that of the validation data val, validation, valid, test or testing{}",
         scan_.shown(train_), first_names(classes_), probably_meant(scan_, find_data_sets(scan_)));
  }

  // The pictures of these classes in a part of the data.
  PictureList pictures(const std::string& part, const std::vector<ClassFolder>& folders, bool training) {
    PictureListBuilder builder(classes_);
    for (const auto& [name, folder] : folders) {
      const auto label = std::ranges::lower_bound(classes_, name) - classes_.begin();
      const std::string path = part.empty() ? folder : part + "/" + folder;
      SplitsInside inside;
      for (const FolderScan::Picture& p : scan_.pictures(path)) {
        builder.add(p.path, static_cast<int32_t>(label), p.bytes, p.mtime_ns);
        if (training) inside.see(p.path.substr(path.size() + 1));
      }
      if (training) inside_.emplace_back(path, inside);
    }
    return std::move(builder).finish();
  }

  // Refuses a class folder that holds a data set, and warns of class folders that hold splits.
  void judge_splits_inside() {
    const auto is_data_set = [](const auto& folder) { return folder.second.train_of_folders; };
    const auto with_val = [](const auto& folder) {
      return folder.second.train_of_folders && folder.second.val_of_folders;
    };
    auto found = std::ranges::find_if(inside_, with_val);
    if (found == inside_.end() && std::ranges::all_of(inside_, is_data_set)) found = inside_.begin();
    if (found != inside_.end())
      fail(Exit::data, "{} is no class folder: it holds a data set with folders of training data{}",
           scan_.shown(found->first), meant());
    found = std::ranges::find_if(inside_, [](const auto& folder) { return folder.second.train && folder.second.val; });
    if (found != inside_.end())
      note(
          "warning: class folders hold folders of splits, such as {}: all their pictures are training data; for "
          "validation data put the classes into the splits, such as {}",
          scan_.shown(found->first + "/train"),
          scan_.shown("train/" + found->first.substr(found->first.rfind('/') + 1)));
  }

  void judge_empty_classes() {
    std::vector<bool> used(classes_.size());
    for (int64_t i = 0; i < lists_.train.size(); ++i) used[lists_.train.label(i)] = true;
    Names empty;
    for (size_t i = 0; i < classes_.size(); ++i)
      if (!used[i]) empty.push_back(classes_[i]);
    if (std::ssize(classes_) - std::ssize(empty) < least_classes_)
      fail(Exit::data,
           "{} holds pictures of one class only, {}, and a network learns to tell at least two classes apart{}",
           scan_.shown(train_), printable(lists_.train.class_name(lists_.train.label(0))), meant());
    if (!empty.empty())
      note("warning: classes without training pictures, which keep their label: {}", first_names(empty));
    for (const std::string& name : classes_)
      if (train_.empty() && split_of(name) == Split::val)
        note("warning: the folder {} is a class here, because there is no folder train", scan_.shown(name));
    if (!val_.empty() && lists_.val.size() == 0) note("warning: {} holds no pictures", scan_.shown(val_));
  }

  std::string root_text() const { return root_.native(); }

  std::string what_else() const {
    std::string text;
    for (const std::string& line : conversion_notes(scan_.unread(), root_text())) text += "\n  " + line;
    if (scan_.others() > 0) text += fmt::format("\n  {} other files", scan_.others());
    return text;
  }

  // A line with the folders that hold no data, or nothing.
  std::string left_out() const {
    std::map<std::string, int64_t> counts = scan_.left_out();
    for (const auto& [path, name] : left_out_) ++counts[name];
    Names names;
    for (const auto& [name, count] : counts)
      names.push_back(count == 1 ? name : fmt::format("{} ({} times)", name, count));
    return names.empty() ? ""
                         : "\nnot read: folders of systems, and folders with hidden files only: " + first_names(names);
  }

  std::string meant() const {
    const Names folders = find_data_sets(scan_);
    return folders.empty() ? expected() : probably_meant(scan_, folders);
  }

  std::string expected() const {
    return fmt::format(
        "; expected is a folder for each class, such as\n  {0}/train/cat/1.jpg\n  {0}/train/dog/2.jpg\n"
        "  {0}/val/cat/3.jpg\nor without train and val, or a file with --labels FILE.csv{1}",
        scan_.shown(""), left_out());
  }

  const fs::path root_;
  FolderScan scan_;
  const int least_classes_;
  std::string train_, val_;  // folders of the parts; no train_: the root; no val_: no validation data
  std::vector<ClassFolder> folders_, val_folders_;
  Names classes_;
  std::vector<std::pair<std::string, SplitsInside>> inside_;  // of each class folder of the training data
  std::map<std::string, std::string> left_out_;               // name of a folder that holds no data, by its path
  PictureLists lists_;
};

}  // namespace

PictureLists list_folder(const fs::path& root, const std::function<void()>& progress, int least_classes) {
  return FolderLister(root, progress, least_classes).list();
}

}  // namespace ddp
