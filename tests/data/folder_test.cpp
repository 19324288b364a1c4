#include "data/folder.h"

#include "data/detect.h"
#include "data/val_split.h"
#include "tests/expect_error.h"
#include "tests/temp_folder.h"
#include "tests/text.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace ddp {
namespace {

namespace fs = std::filesystem;
using namespace std::string_literals;
using Names = std::vector<std::string>;

Names paths(const PictureList& list) {
  Names result;
  for (int64_t i = 0; i < list.size(); ++i) result.emplace_back(list.path(i));
  return result;
}
Names classes(const PictureList& list) {
  Names result;
  for (int i = 0; i < list.classes(); ++i) result.emplace_back(list.class_name(i));
  return result;
}
std::string notes(const PictureLists& lists) {
  std::string text;
  for (const std::string& note : lists.notes) text += note + "\n";
  return text;
}

class Folder : public ::testing::Test {
 protected:
  PictureLists list() const { return list_folder(data_.path()); }
  void expect_refused(std::initializer_list<std::string> parts) const {
    expect_error(Exit::data, parts, [&] { list(); });
  }
  TempFolder data_;
};

// As sorted(os.walk(class, followlinks=True)), then sorted(names): a folder's own files come before those of the
// folders in it, and "c/a-b" comes between "c/a" and "c/a/q", because '-' is less than '/'.
TEST_F(Folder, OrderIsThatOfImageFolder) {
  for (const char* name : {"c/z.jpg", "c/a/x.PNG", "c/a-b/y.jpeg", "c/a/q/w.JPG", "c/B.jpg", "B/1.jpg", "B/10.jpg",
                           "B/2.jpg", "\u00e9/1.jpg"})
    data_.write(name);
  const PictureLists lists = list();
  EXPECT_EQ(classes(lists.train), (Names{"B", "c", "\u00e9"}));
  EXPECT_EQ(paths(lists.train), (Names{"B/1.jpg", "B/10.jpg", "B/2.jpg", "c/B.jpg", "c/z.jpg", "c/a/x.PNG",
                                       "c/a-b/y.jpeg", "c/a/q/w.JPG", "\u00e9/1.jpg"}));
  EXPECT_EQ(lists.val.size(), 0);
  EXPECT_EQ(classes(lists.val), classes(lists.train));
  EXPECT_TRUE(lists.notes.empty()) << notes(lists);
}

TEST_F(Folder, ReadsSizesAndTimes) {
  data_.write("a/1.jpg", std::string(300, 'x'));
  const timespec times[] = {{0, 0}, {1'500'000'000, 25}};
  ASSERT_EQ(::utimensat(AT_FDCWD, (data_ / "a/1.jpg").c_str(), times, 0), 0);
  const PictureLists lists = list();
  EXPECT_EQ(lists.train.bytes(0), 300);
  EXPECT_EQ(lists.train.mtime_ns(0), 1'500'000'000'000'000'025);
}

TEST_F(Folder, ValidationIsMatchedByName) {
  for (const char* name : {"train/a/1.jpg", "train/b/2.jpg", "train/c/3.jpg", "val/c/4.jpg", "val/b/5.jpg"})
    data_.write(name);
  const PictureLists lists = list();
  EXPECT_EQ(paths(lists.train), (Names{"train/a/1.jpg", "train/b/2.jpg", "train/c/3.jpg"}));
  EXPECT_EQ(paths(lists.val), (Names{"val/b/5.jpg", "val/c/4.jpg"}));
  EXPECT_EQ(classes(lists.val), (Names{"a", "b", "c"}));
  EXPECT_EQ(lists.val.label(0), 1);
  EXPECT_EQ(lists.val.label(1), 2);
  data_.write("val/dog/1.jpg");
  expect_refused({data_ / "val", "that " + (data_ / "train").string() + " lacks: dog"});
}

TEST_F(Folder, FirstValidationFolderIsUsed) {
  for (const char* name : {"train/a/1.jpg", "test/a/2.jpg", "valid/a/3.jpg", "validation/a/4.jpg", "extra/a/5.jpg"})
    data_.write(name);
  const PictureLists lists = list();
  EXPECT_EQ(paths(lists.val), Names{"validation/a/4.jpg"});
  EXPECT_HAS(notes(lists), "validation; valid is not read");
  EXPECT_HAS(notes(lists), "validation; test is not read");
  EXPECT_HAS(notes(lists), "not in train: the folders extra");
}

TEST_F(Folder, TestPicturesWithoutClassesAreNotRead) {
  data_.write("train/a/1.jpg");
  data_.write("test/2.jpg");
  const PictureLists lists = list();
  EXPECT_EQ(lists.val.size(), 0);
  EXPECT_HAS(notes(lists), "test holds 1 pictures without class folders");
  fs::rename(data_ / "test", data_ / "val");
  expect_refused({"val holds 1 pictures (such as 2.jpg) but no class folders", "/val/cat/3.jpg"});
}

TEST_F(Folder, TrainMayBeAClass) {
  for (const char* name : {"train/1.jpg", "car/2.jpg"}) data_.write(name);
  EXPECT_EQ(classes(list().train), (Names{"car", "train"}));
}

TEST_F(Folder, ValidationWithoutTrainingIsRefused) {
  data_.write("test/cat/1.jpg");
  expect_refused({"holds test but no train", data_ / "train"});
}

TEST_F(Folder, EmptyClassKeepsItsLabel) {
  fs::create_directories(data_ / "train/a");
  data_.write("train/b/1.jpg");
  fs::create_directories(data_ / "val/b");
  const PictureLists lists = list();
  EXPECT_EQ(classes(lists.train), (Names{"a", "b"}));
  EXPECT_EQ(lists.train.label(0), 1);
  EXPECT_HAS(notes(lists), "warning: classes without training pictures, which keep their label: a\n");
  EXPECT_HAS(notes(lists), "val holds no pictures");
}

TEST_F(Folder, OtherFilesAreCounted) {
  for (const char* name : {"a/1.jpg", "a/2.HEIC", "a/3.heic", "a/b/4.tiff", "a/notes.txt", "a/jpg", "a/.5.jpg",
                           "a/.thumbs/6.jpg", ".git/7.jpg", "8.jpg", "b/9.WebP"})
    data_.write(name);
  const PictureLists lists = list();
  EXPECT_EQ(paths(lists.train), (Names{"a/1.jpg", "b/9.WebP"}));
  EXPECT_HAS(notes(lists), "2 .heic files are not read; convert them: find -L '" + data_.path().string() +
                               "' -iname '*.heic' -exec mogrify -format jpg {} +");
  EXPECT_HAS(notes(lists), "1 .tiff file is not read");
  EXPECT_HAS(notes(lists), "2 files in the class folders are no pictures");
  EXPECT_HAS(notes(lists), "warning: 1 pictures directly in " + data_.path().string() + " have no class");
}

TEST_F(Folder, WrongLayoutsAreRefused) {
  const std::string root = data_.path();
  expect_error(Exit::data, {root + "/nowhere: No such file", "--data-path"}, [&] { list_folder(data_ / "nowhere"); });
  expect_error(Exit::data, {"is not a folder"}, [&] { list_folder(data_.write("file.txt")); });
  expect_refused({root + " holds no class folders", root + "/train/cat/1.jpg"});
  data_.write("2.jpg");
  data_.write("1.png");
  expect_refused({root + " holds 2 pictures (such as 1.png) but no class folders", root + "/val/cat/3.jpg"});
  data_.write("cat/1.gif");
  expect_refused({"no class folder holds a .jpg, .jpeg, .png or .webp file", "1 .gif file is not read; convert it"});
  data_.write("train/5.jpg");
  fs::remove_all(data_ / "cat");
  expect_refused({root + "/train holds 1 pictures (such as 5.jpg)"});
}

TEST_F(Folder, FoldersOfSystemsAreLeftOut) {
  for (const char* name : {"train/a/1.jpg", "train/a/@eaDir/1.jpg/thumb.jpg", "train/a/desktop.ini", "train/b/.1.jpg",
                           "train/b/c/Thumbs.db", "train/d/@eaDir/2.jpg", "val/a/3.jpg", "val/#recycle/4.jpg"})
    data_.write(name);
  fs::create_directories(data_ / "train/e");
  fs::create_directories(data_ / "train/f/g");
  const PictureLists lists = list();
  EXPECT_EQ(classes(lists.train), (Names{"a", "e", "f"}));
  EXPECT_EQ(paths(lists.train), Names{"train/a/1.jpg"});
  EXPECT_EQ(paths(lists.val), Names{"val/a/3.jpg"});
  EXPECT_HAS(notes(lists), "hidden files only: #recycle, @eaDir, b, d\n");
  EXPECT_LACKS(notes(lists), "no pictures and are");
  data_.write("val/b/5.jpg");
  expect_refused({"that " + (data_ / "train").string() + " lacks: b;", "hidden files only: #recycle, b, d"});
}

TEST_F(Folder, NamesHaveOneNormalForm) {
  const std::string one = "caf\u00e9", two = "cafe\u0301";
  for (const std::string& name : {"train/" + two + "/1.jpg", "train/cafes/2.jpg"s, "val/" + one + "/3.jpg"})
    data_.write(name);
  const PictureLists lists = list();
  EXPECT_EQ(classes(lists.train), (Names{"cafes", one}));
  EXPECT_EQ(paths(lists.train), (Names{"train/cafes/2.jpg", "train/" + two + "/1.jpg"}));
  EXPECT_EQ(lists.train.label(1), 1);
  EXPECT_EQ(paths(lists.val), Names{"val/" + one + "/3.jpg"});
  EXPECT_EQ(lists.val.label(0), 1);
  for (const char* part : {"val", "train"}) {
    data_.write(part + "/"s + one + "/4.jpg");
    data_.write(part + "/"s + two + "/5.jpg");
    expect_refused({(data_ / part).string() + ": two class folders have one name, in two Unicode normal forms: ",
                    "(65 CC 81)", "(C3 A9)", "move the pictures of one into the other"});
    fs::remove_all(data_ / "val");
  }
}

TEST_F(Folder, NamesThatDifferOnlyByCaseAreShown) {
  for (const char* name : {"train/cat/1.jpg", "train/\u00e9t\u00e9/2.jpg", "val/Cat/3.jpg", "val/\u00c9T\u00c9/4.jpg"})
    data_.write(name);
  expect_refused({"lacks: Cat, \u00c9T\u00c9; ",
                  "; these names differ only by case: Cat and cat, \u00c9T\u00c9 and \u00e9t\u00e9"});
}

TEST_F(Folder, PartsMayHaveTwoFolders) {
  for (const char* name : {"Train/a/1.jpg", "train/b/2.jpg", "Val/b/3.jpg", "val/b/4.jpg"}) data_.write(name);
  const PictureLists lists = list();
  EXPECT_EQ(paths(lists.train), Names{"train/b/2.jpg"});
  EXPECT_EQ(paths(lists.val), Names{"val/b/4.jpg"});
  EXPECT_HAS(notes(lists), "warning: not read, because they are not in train: the folders Train\n");
  EXPECT_HAS(notes(lists), "validation data are those of val; Val is not read\n");
}

// A network may be evaluated on one of its classes, but not on a data set one level deeper.
TEST_F(Folder, OneClassIsEnoughToEvaluate) {
  data_.write("cat/1.jpg");
  EXPECT_EQ(list_folder(
                data_.path(), [] {}, 1)
                .meant,
            "");
  expect_error(Exit::data, {"only one class folder, cat,", "/val/cat/3.jpg"}, [&] {
    list_folder(
        data_.path(), [] {}, 2);
  });
  data_.write("cat/tom/2.jpg");
  data_.write("cat/felix/3.jpg");
  EXPECT_EQ(list_folder(
                data_.path(), [] {}, 1)
                .meant,
            "; probably meant:\n  --data-path '" + (data_ / "cat").string() + "'");
  data_.write("cat/training/tom/2.jpg");
  data_.write("cat/training/felix/3.jpg");
  data_.write("cat/Test/felix/4.jpg");
  expect_error(Exit::data, {(data_ / "cat").string() + " is no class folder", "probably meant:\n  --data-path '"}, [&] {
    list_folder(
        data_.path(), [] {}, 1);
  });
}

TEST_F(Folder, LinksAreFollowed) {
  data_.write("store/sub/1.jpg", "four");
  data_.write("root/a/2.jpg");
  fs::create_symlink(data_ / "store", data_ / "root/b");
  fs::create_symlink(data_ / "store/sub/1.jpg", data_ / "root/a/3.jpg");
  fs::create_symlink(data_ / "store/sub", data_ / "root/a/twice");
  fs::create_symlink("nowhere", data_ / "root/a/readme");
  const PictureLists lists = list_folder(data_ / "root");
  EXPECT_EQ(paths(lists.train), (Names{"a/2.jpg", "a/3.jpg", "a/twice/1.jpg", "b/sub/1.jpg"}));
  EXPECT_EQ(lists.train.bytes(1), 4);
}

TEST_F(Folder, CirclesAreNamed) {
  data_.write("a/b/1.jpg");
  fs::create_symlink("..", data_ / "a/b/up");
  expect_refused({(data_ / "a/b/up").string() + ": is a link to " + (data_ / "a").string() + ", a folder above it"});
  fs::remove(data_ / "a/b/up");
  fs::create_symlink(data_.path(), data_ / "a/b/root");
  expect_refused({(data_ / "a/b/root").string() + ": is a link to " + data_.path().string() + ", a folder above"});
  fs::remove(data_ / "a/b/root");
  fs::create_symlink("loop", data_ / "a/loop");
  expect_refused({(data_ / "a/loop").string(), "Too many levels of symbolic links"});
}

TEST_F(Folder, SpecialFilesAreRefused) {
  data_.write("a/1.jpg");
  ASSERT_EQ(::mkfifo((data_ / "a/pipe").c_str(), 0600), 0);
  EXPECT_EQ(list().train.size(), 1);
  ASSERT_EQ(::mkfifo((data_ / "a/2.jpg").c_str(), 0600), 0);
  expect_refused({(data_ / "a/2.jpg").string() + ": is a FIFO"});
  fs::remove(data_ / "a/2.jpg");
  fs::create_symlink("/dev/zero", data_ / "a/3.jpg");
  expect_refused({(data_ / "a/3.jpg").string() + ": is a FIFO, a socket or a device"});
  fs::remove(data_ / "a/3.jpg");
  fs::create_symlink("nowhere", data_ / "a/4.jpg");
  expect_refused({(data_ / "a/4.jpg").string() + ": is a link that leads nowhere"});
}

TEST_F(Folder, NoPermission) {
  data_.write("a/1.jpg");
  fs::create_directories(data_ / "b");
  fs::permissions(data_.path(), fs::perms::all);
  fs::permissions(data_ / "b", fs::perms::none);
  const uid_t user = ::geteuid();
  ASSERT_EQ(::seteuid(user == 0 ? 65534 : user), 0);
  expect_refused({(data_ / "b").string() + ": cannot read the folder: Permission denied"});
  ASSERT_EQ(::seteuid(user), 0);
  fs::permissions(data_ / "b", fs::perms::owner_all);
}

TEST_F(Folder, NamesMayHaveAnyBytes) {
  data_.write("my cat/a b\n.jpg");
  data_.write("\xff/1.jpg");
  EXPECT_EQ(paths(list().train), (Names{"my cat/a b\n.jpg", "\xff/1.jpg"}));
  ASSERT_EQ(::mkfifo((data_ / "\xff/2\n.jpg").c_str(), 0600), 0);
  expect_refused({data_.path().string() + "/\\xFF/2\\x0A.jpg: is a FIFO"});
}

TEST_F(Folder, DeepFoldersAreRefused) {
  std::string deep = "a";
  for (int i = 0; i < 300; ++i) deep += "/d";
  data_.write(deep + "/1.jpg");
  expect_refused({"more than 256 folders in each other"});
}

class ValSplit : public ::testing::Test {
 protected:
  static PictureLists pictures(int count, int classes, int step = 1) {
    Names names;
    for (int c = 0; c < classes; ++c) names.push_back("class" + std::to_string(c));
    PictureListBuilder all(names);
    for (int c = 0; c < classes; ++c)
      for (int i = 0; i < count; i += step) all.add(names[c] + "/" + std::to_string(i) + ".jpg", c, i, 2 * i);
    return {std::move(all).finish(), PictureListBuilder(names).finish(), {}};
  }
};

TEST_F(ValSplit, TakesAShareOfEachClass) {
  PictureLists lists = pictures(2'000, 3);
  const Names all = paths(lists.train);
  split_validation(lists, 0.1, 5);
  std::map<int32_t, int> count;
  for (int64_t i = 0; i < lists.val.size(); ++i) ++count[lists.val.label(i)];
  for (int label = 0; label < 3; ++label) EXPECT_NEAR(count[label], 200, 60);  // 4.5 standard deviations
  const Names train = paths(lists.train), val = paths(lists.val);
  EXPECT_EQ(train.size() + val.size(), all.size());
  size_t t = 0, v = 0;  // both parts are in the order of the whole
  for (const std::string& path : all)
    if (t < train.size() && train[t] == path)
      ++t;
    else if (v < val.size() && val[v] == path)
      ++v;
  EXPECT_EQ(t, train.size());
  EXPECT_EQ(v, val.size());
  EXPECT_EQ(std::stoi(std::string(lists.val.path(9)).substr(7)), lists.val.bytes(9));
  EXPECT_EQ(lists.val.mtime_ns(9), 2 * lists.val.bytes(9));
  EXPECT_EQ(classes(lists.val), classes(lists.train));
}

TEST_F(ValSplit, StaysWhenFilesComeOrGo) {
  PictureLists whole = pictures(600, 3), part = pictures(600, 2, 3), other = pictures(600, 3);
  split_validation(whole, 0.3, 5);
  split_validation(part, 0.3, 5);
  split_validation(other, 0.3, 6);
  const Names chosen = paths(whole.val), here = paths(part.val), rest = paths(part.train);
  const std::set<std::string> val(chosen.begin(), chosen.end());
  for (const std::string& path : here) EXPECT_TRUE(val.contains(path)) << path;
  for (const std::string& path : rest) EXPECT_FALSE(val.contains(path)) << path;
  EXPECT_NE(paths(other.val), chosen);
}

// Another value would move the validation data of users. A separate implementation in Python has computed this one.
TEST_F(ValSplit, KeyIsFixed) {
  EXPECT_EQ(val_split_key(1, "cat", "cat/1.jpg"), 2440930796070575019u);
  EXPECT_NE(val_split_key(1, "ca", "tcat/1.jpg"), val_split_key(1, "cat", "cat/1.jpg"));
}

TEST_F(ValSplit, LeavesOneForTraining) {
  PictureLists lists = pictures(3, 4);
  split_validation(lists, 0.999999, 1);
  EXPECT_EQ(lists.val.size(), 8);
  std::set<int32_t> labels;
  for (int64_t i = 0; i < lists.train.size(); ++i) labels.insert(lists.train.label(i));
  EXPECT_EQ(labels.size(), 4u);
  lists = pictures(3, 4);
  split_validation(lists, 0, 1);
  EXPECT_EQ(lists.val.size(), 0);
  expect_error(Exit::usage, {"--val-split 1 is out of range"}, [&] { split_validation(lists, 1, 1); });
}

TEST(PictureList, KnowsItsFiles) {
  PictureListBuilder builder({"a", "b"});
  builder.add("x y/1.jpg", 1, 5, -3);
  builder.add("2.jpg", 0, 0, int64_t{1} << 62);
  const PictureList list = std::move(builder).finish();
  EXPECT_EQ(paths(list), (Names{"x y/1.jpg", "2.jpg"}));
  EXPECT_EQ(classes(list), (Names{"a", "b"}));
  EXPECT_EQ(list.label(0), 1);
  EXPECT_EQ(list.bytes(0), 5);
  EXPECT_EQ(list.mtime_ns(0), -3);
  EXPECT_EQ(list.mtime_ns(1), int64_t{1} << 62);
  EXPECT_THROW(list.path(2), Error);
  EXPECT_THROW(list.label(-1), Error);
  EXPECT_THROW(list.class_name(2), Error);
  EXPECT_LE(list.block().size(), 128 + 2 * 64u);
  EXPECT_EQ(PictureList().size(), 0);
}

TEST(PictureList, HashIsOfPathsSizesLabelsAndClasses) {
  struct File {
    std::string path;
    int label;
    int64_t bytes, mtime;
  };
  const auto hash = [](const Names& names, const std::vector<File>& files) {
    PictureListBuilder builder(names);
    for (const File& f : files) builder.add(f.path, f.label, f.bytes, f.mtime);
    return std::move(builder).finish().hash();
  };
  const uint64_t one = hash({"a", "b"}, {{"p", 0, 5, 1}, {"q", 1, 6, 2}});
  EXPECT_EQ(one, hash({"a", "b"}, {{"p", 0, 5, 9}, {"q", 1, 6, 9}}));
  EXPECT_NE(one, hash({"a", "c"}, {{"p", 0, 5, 1}, {"q", 1, 6, 2}}));
  EXPECT_NE(one, hash({"a", "b"}, {{"q", 1, 6, 2}, {"p", 0, 5, 1}}));
  EXPECT_NE(one, hash({"a", "b"}, {{"r", 0, 5, 1}, {"q", 1, 6, 2}}));
  EXPECT_NE(one, hash({"a", "b"}, {{"p", 1, 5, 1}, {"q", 1, 6, 2}}));
  EXPECT_NE(one, hash({"a", "b"}, {{"p", 0, 6, 1}, {"q", 1, 6, 2}}));
  EXPECT_NE(one, hash({"a", "b"}, {{"p", 0, 5, 1}}));
}

std::shared_ptr<const std::byte[]> shared(const std::vector<std::byte>& bytes) {
  std::shared_ptr<std::byte[]> copy(new std::byte[bytes.size()]);
  std::ranges::copy(bytes, copy.get());
  return copy;
}

TEST(PictureList, BlocksAreSharedWhole) {
  PictureListBuilder train({"a", "b"}), val({"a", "b"});
  train.add("1.jpg", 0, 7, 8);
  train.add("long name.jpg", 1, 9, 10);
  val.add("3.jpg", 1, 11, 12);
  const PictureLists lists{std::move(train).finish(), std::move(val).finish(), {}};
  const std::vector<std::byte> block = lists.block();
  const PictureLists copy = PictureLists::from_block(shared(block), block.size());
  EXPECT_EQ(copy.train.hash(), lists.train.hash());
  EXPECT_EQ(copy.val.hash(), lists.val.hash());
  EXPECT_EQ(copy.train.mtime_ns(1), 10);
  EXPECT_EQ(copy.val.class_name(1), "b");
  const std::vector<std::byte> none = PictureLists().block();
  EXPECT_EQ(PictureLists::from_block(shared(none), none.size()).train.size(), 0);
}

// Each cut is refused. A changed byte is refused, or changes what the list says, or is one of the padding.
TEST(PictureList, DifferentListsNameTheirHosts) {
  std::vector<ListedHost> hosts = {{"a", 50, 10, 7}, {"a", 50, 10, 7}, {"b", 50, 10, 7}};
  EXPECT_EQ(difference_of_hosts(hosts), "");
  hosts.push_back({"c", 49, 10, 9});
  EXPECT_EQ(difference_of_hosts(hosts),
            "\n  a, b: 50 training and 10 validation pictures (list 0000000000000007)"
            "\n  c: 49 training and 10 validation pictures (list 0000000000000009)");
  for (const char* name : {"d", "e", "f"}) hosts.push_back({name, 50, 10, 7});
  EXPECT_HAS(difference_of_hosts(hosts), "\n  a, b, d and 2 more hosts: 50 training");
}

TEST(PictureList, BrokenBlocksAreRefused) {
  PictureListBuilder train({"a", "b"});
  train.add("1.jpg", 0, 7, 8);
  train.add("2.jpg", 1, 9, 10);
  const PictureLists lists{std::move(train).finish(), PictureListBuilder({"a", "b"}).finish(), {}};
  const std::vector<std::byte> block = lists.block();
  for (size_t size = 0; size < block.size(); ++size) {
    const std::vector<std::byte> cut(block.begin(), block.begin() + static_cast<std::ptrdiff_t>(size));
    if (size == 8 + (lists.train.block().size() + 7) / 8 * 8) continue;  // without a validation list
    EXPECT_THROW(PictureLists::from_block(shared(cut), size), Error) << size;
  }
  for (size_t i = 0; i < 8 + lists.train.block().size(); ++i)
    for (const int change : {1, 0x80, 0xff}) {
      std::vector<std::byte> broken = block;
      broken[i] ^= static_cast<std::byte>(change);
      try {
        const PictureLists read = PictureLists::from_block(shared(broken), broken.size());
        bool other = read.train.hash() != lists.train.hash();
        for (int64_t f = 0; f < read.train.size(); ++f) {
          other |= read.train.mtime_ns(f) != lists.train.mtime_ns(f);
          EXPECT_TRUE(read.train.label(f) == 0 || read.train.label(f) == 1) << i;
        }
        EXPECT_TRUE(other) << i;
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), Exit::internal);
      }
    }
}

TEST(PictureList, PathsThatLeaveTheRootAreRefused) {
  PictureListBuilder train({"a"});
  train.add("ab/cd/ef", 0, 7, 8);
  const std::vector<std::byte> block = PictureLists{std::move(train).finish(), {}, {}}.block();
  std::string text(reinterpret_cast<const char*>(block.data()), block.size());
  const size_t path = text.find("ab/cd/ef");
  ASSERT_NE(path, text.npos);
  const auto with = [&](const std::string& other) {
    std::vector<std::byte> changed = block;
    for (size_t i = 0; i < 8; ++i) changed[path + i] = static_cast<std::byte>(other[i]);
    return PictureLists::from_block(shared(changed), changed.size());
  };
  EXPECT_EQ(with("..a/b../").train.path(0), "..a/b../");
  for (const std::string& bad : {"../cd/ef"s, "ab/../ef"s, "b/cde/.."s, "/b/cd/ef"s, "ab/\0d/ef"s})
    expect_error(Exit::internal, {"a path is not valid"}, [&] { with(bad); });
}

TEST(Detect, KnowsTheDataSets) {
  const TempFolder data;
  data.write("cifar10/data_batch_1.bin");
  data.write("cifar10/batches.meta.txt");
  data.write("above/cifar-100-binary/train.bin");
  data.write("above/cifar-100-binary/fine_label_names.txt");
  data.write("mnist/train-images-idx3-ubyte.gz");
  data.write("pictures/cat/1.jpg");
  data.write("flat/1.jpg");
  EXPECT_EQ(detect_dataset(data / "cifar10"), "cifar10");
  EXPECT_EQ(detect_dataset(data / "above"), "cifar100");
  EXPECT_EQ(detect_dataset(data / "above/cifar-100-binary"), "cifar100");
  EXPECT_EQ(detect_dataset(data / "mnist"), "mnist");
  EXPECT_EQ(detect_dataset(data / "pictures"), "folder");
  EXPECT_EQ(detect_dataset(data / "flat"), "folder");
}

TEST(Detect, SaysWhatWasFound) {
  const TempFolder data;
  const auto expect_refused = [&](const std::string& folder, std::initializer_list<std::string> parts) {
    expect_error(Exit::data, parts, [&] { detect_dataset(data / folder); });
  };
  expect_refused("nowhere", {"nowhere: No such file"});
  expect_refused("", {"found no files", "expected are class folders"});
  data.write("x/labels.csv");
  data.write("x/\n");
  expect_refused("x", {"found \\x0A, labels.csv", "--labels " + (data / "x/labels.csv").string()});
  data.write("y/cifar-10-binary.tar.gz");
  expect_refused("y", {"unpack " + (data / "y/cifar-10-binary.tar.gz").string() + " with tar xf"});
  data.write("z/cifar-10-batches-py/data_batch_1");
  expect_refused("z", {"data_batch_1: is the Python version of CIFAR"});
  expect_refused("y/cifar-10-binary.tar.gz", {"is not a folder"});
}

}  // namespace
}  // namespace ddp
