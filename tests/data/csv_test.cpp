#include "data/csv.h"

#include "data/csv_labels.h"
#include "tests/expect_error.h"
#include "tests/temp_folder.h"
#include "tests/text.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <string>
#include <vector>

namespace ddp {
namespace {

using Names = std::vector<std::string>;

const std::string kOne = "caf\u00e9", kTwo = "cafe\u0301";  // one name in two Unicode normal forms

TEST(CsvLabels, SortsClasses) {
  const auto sorted = [](Names names) {
    sort_classes(names);
    return names;
  };
  EXPECT_EQ(sorted({"10", "9", "-3", "0", "-12", "100000000000000000000000", "7"}),
            (Names{"-12", "-3", "0", "7", "9", "10", "100000000000000000000000"}));
  EXPECT_EQ(sorted({"1", "01", "0", "-0", "2"}), (Names{"-0", "0", "01", "1", "2"}));
  EXPECT_EQ(sorted({"10", "9", "cat"}), (Names{"10", "9", "cat"}));
  EXPECT_EQ(sorted({"b", "\u00e9", "B", "a"}), (Names{"B", "a", "b", "\u00e9"}));
  EXPECT_EQ(sorted({"10", "9", "-"}), (Names{"-", "10", "9"}));
}

TEST(CsvLabels, ReadsColumnsInAnyOrder) {
  const LabelTable table = parse_labels("f.csv",
                                        "split,x,label,path\ntrain,1,10,b/./2.jpg\nval,,9,a/../1.jpg\n"
                                        "test,,10,3.jpg\ntrain,,9,\"a,b//4.jpg\"\n");
  EXPECT_EQ(table.classes, (Names{"9", "10"}));
  ASSERT_EQ(table.rows.size(), 4u);
  const Names paths = {"b/2.jpg", "1.jpg", "3.jpg", "a,b/4.jpg"}, labels = {"10", "9", "10", "9"};
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(table.rows[i].path, paths[i]);
    EXPECT_EQ(table.rows[i].label, labels[i]);
    EXPECT_EQ(table.rows[i].line, static_cast<int64_t>(i) + 2);
    EXPECT_EQ(table.rows[i].val, i == 1 || i == 2);
  }
  EXPECT_EQ(table.notes, Names{"f.csv: not read: the columns \"x\""});
}

TEST(CsvLabels, RefusesBadRows) {
  const auto expect_refused = [](const std::string& text, std::initializer_list<std::string> parts) {
    expect_error(Exit::data, parts, [&] { parse_labels("f.csv", text); });
  };
  expect_refused("", {"f.csv: is empty", "path,label"});
  expect_refused("path;label\na;b", {"separated by commas", "It names \"path;label\""});
  expect_refused("path, label\na,b", {"\"path\", \" label\""});
  expect_refused("path,label,path\na,b,c", {"names the column path twice"});
  expect_refused("path,label\n", {"no row of training data"});
  const std::string head = "path,label,split\n1.jpg,a,train\n";
  expect_refused(head + "2.jpg,a", {"f.csv, line 3: has 2 fields, the first line 3"});
  expect_refused(head + "2.jpg,a,train,x", {"line 3: has 4 fields"});
  expect_refused(head + "2.jpg,,train", {"line 3: the label is empty"});
  expect_refused(head + ",a,train", {"line 3", "is no path"});
  expect_refused(head + "2.jpg,a,dev", {"line 3: unknown split \"dev\""});
  expect_refused(head + "2.jpg,a,", {"line 3: unknown split \"\""});
  expect_refused(head + "/etc/2.jpg,a,train", {"line 3", "absolute path"});
  expect_refused(head + "x/../../2.jpg,a,train", {"line 3", "\"x/../../2.jpg\" leaves --data-path"});
  expect_refused(head + "x/..,a,train", {"line 3", "names a folder"});
  expect_refused(head + "x/,a,train", {"line 3", "names a folder"});
  expect_refused(head + std::string(5'000, 'x') + ",a,train", {"line 3", "is too long"});
  expect_refused(head + "./1.jpg,b,train", {"lines 2 and 3: 1.jpg has two labels, a and b"});
  expect_refused(head + "1.jpg,b,val", {"lines 2 and 3: 1.jpg has two labels"});
  expect_refused(head + "1.jpg,a,train", {"lines 2 and 3: 1.jpg stands twice"});
  expect_refused(head + "2.jpg,dog,val", {"line 3: no training row has the label dog"});
  const LabelTable both = parse_labels("f.csv", head + "1.jpg,a,val\n");
  EXPECT_EQ(both.notes, Names{"warning: f.csv: 1 files are training and validation data"});
  expect_refused(head + "2.jpg,A,val",
                 {"line 3: no training row has the label A; ", "; these names differ only by case: A and a"});
  for (const std::string split : {"train", "val"})
    expect_refused(head + "2.jpg," + kOne + ",train\n3.jpg," + kOne + "," + split + "\n4.jpg," + kTwo + "," + split,
                   {split == "val" ? "lines 4 and 5: " : "lines 3 and 5: ", "one label in two Unicode normal forms: ",
                    "(C3 A9)", "(65 CC 81)"});
}

TEST(CsvLabels, HaveOneNormalForm) {
  const LabelTable table =
      parse_labels("f.csv", "path,label,split\n1.jpg," + kTwo + ",Training\n2.jpg," + kOne + ",VAL\n");
  EXPECT_EQ(table.classes, Names{kOne});
  for (const LabelRow& row : table.rows) EXPECT_EQ(row.label, kOne);
  EXPECT_FALSE(table.rows.at(0).val);
  EXPECT_TRUE(table.rows.at(1).val);
}

TEST(Csv, ListsFilesInTheOrderOfRows) {
  const TempFolder data;
  for (const char* name : {"z.jpg", "a.jpg", "m/b.png"}) data.write(std::string("root/") + name, name);
  const auto file = data.write("l.csv", "path,label,split\nz.jpg,cat,train\nm/b.png,ant,val\na.jpg,ant,train\n");
  const PictureLists lists = list_csv(file, data / "root");
  ASSERT_EQ(lists.train.size(), 2);
  EXPECT_EQ(lists.train.path(0), "z.jpg");
  EXPECT_EQ(lists.train.label(0), 1);
  EXPECT_EQ(lists.train.bytes(0), 5);
  EXPECT_GT(lists.train.mtime_ns(0), 1'700'000'000'000'000'000);
  EXPECT_EQ(lists.train.path(1), "a.jpg");
  EXPECT_EQ(lists.train.label(1), 0);
  ASSERT_EQ(lists.val.size(), 1);
  EXPECT_EQ(lists.val.path(0), "m/b.png");
  EXPECT_EQ(lists.val.class_name(0), "ant");
}

TEST(Csv, FindsFilesInAnotherNormalForm) {
  const TempFolder data;
  data.write(kTwo + "/" + kTwo + ".jpg");
  data.write(kOne + ".jpg");
  const auto file = data.write("l.csv", "path,label\n" + kOne + "/" + kTwo + ".jpg,a\n" + kTwo + ".jpg,b\n");
  const PictureLists lists = list_csv(file, data.path());
  ASSERT_EQ(lists.train.size(), 2);
  EXPECT_EQ(lists.train.path(0), kTwo + "/" + kTwo + ".jpg");
  EXPECT_EQ(lists.train.path(1), kOne + ".jpg");
}

TEST(Csv, CountsMissingFiles) {
  const TempFolder data;
  data.write("0.jpg");
  std::string text = "path,label\n";
  for (int i = 0; i < 30; ++i) text += std::to_string(i) + ".jpg,a\n";
  expect_error(Exit::data,
               {"29 of 30 files are not in " + data.path().string(), "\n  line 3: 1.jpg", "\n  line 22: 20.jpg\n  ..."},
               [&] { list_csv(data.write("l.csv", text), data.path()); });
}

TEST(Csv, RefusesOtherThanFiles) {
  const TempFolder data;
  const auto list = data.write("l.csv", "path,label\nx,a\n");
  const auto expect_refused = [&](const std::filesystem::path& file, std::initializer_list<std::string> parts) {
    expect_error(Exit::data, parts, [&] { list_csv(file, data.path()); });
  };
  ASSERT_EQ(::mkfifo((data / "x").c_str(), 0600), 0);
  expect_refused(list, {"l.csv, line 2: x: is a FIFO"});
  expect_refused(data / "x", {"/x: is a FIFO"});
  std::filesystem::remove(data / "x");
  std::filesystem::create_directory(data / "x");
  expect_refused(list, {"l.csv, line 2: x: is a folder"});
  expect_refused(data / "x", {"/x: is a folder"});
  expect_refused(data / "none.csv", {"none.csv: cannot read it: No such file"});
  expect_error(Exit::data, {"none: No such file", "--data-path"}, [&] { list_csv(list, data / "none"); });
  std::filesystem::resize_file(data.write("big.csv"), 100'000'001);
  expect_refused(data / "big.csv", {"has 100000001 bytes"});
}

}  // namespace
}  // namespace ddp
