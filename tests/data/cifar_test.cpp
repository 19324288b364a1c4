#include "data/cifar.h"

#include "tests/expect_error.h"
#include "tests/temp_folder.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace ddp {
namespace {

constexpr int kImage = 32 * 32;

// A record whose value of channel c at pixel p is p + 70 * c + number.
std::string record(std::initializer_list<int> labels, int number) {
  std::string bytes;
  for (const int label : labels) bytes += static_cast<char>(label);
  for (int c = 0; c < 3; ++c)
    for (int p = 0; p < kImage; ++p) bytes += static_cast<char>(p + 70 * c + number);
  return bytes;
}

std::string names(int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text += "name " + std::to_string(i) + "\n";
  return text + "\n";
}

void expect_image(const Dataset& data, int64_t index, int number) {
  std::vector<uint8_t> pixels(3 * kImage);
  data.read({index}, pixels);
  for (int p = 0; p < kImage; ++p)
    for (int c = 0; c < 3; ++c) ASSERT_EQ(pixels[3 * p + c], static_cast<uint8_t>(p + 70 * c + number));
}

class CifarFiles : public ::testing::Test {
 protected:
  void write_10(const std::string& place = "") const {
    for (int i = 1; i <= 5; ++i)
      data_.write(place + "data_batch_" + std::to_string(i) + ".bin", record({i}, i) + record({9 - i}, 10 * i));
    data_.write(place + "test_batch.bin", record({9}, 99));
    data_.write(place + "batches.meta.txt", names(10));
  }
  void write_100() const {
    data_.write("train.bin", record({19, 99}, 1) + record({0, 5}, 2));
    data_.write("test.bin", record({3, 4}, 3));
    data_.write("fine_label_names.txt", names(100));
    data_.write("coarse_label_names.txt", names(20));
  }
  void expect_refused(bool cifar100, std::initializer_list<std::string> parts) const {
    expect_error(Exit::data, parts, [&] { read_cifar(data_.path(), cifar100, false); });
  }
  TempFolder data_;
};

TEST_F(CifarFiles, ReadsCifar10) {
  write_10();
  const Cifar cifar = read_cifar(data_.path(), false, false);
  ASSERT_EQ(cifar.data.train->size(), 10);
  EXPECT_EQ(cifar.data.train->image_shape(), (ImageShape{32, 32, 3}));
  EXPECT_EQ(cifar.data.train->classes(), 10);
  EXPECT_EQ(cifar.data.train->label(4), 3);
  EXPECT_EQ(cifar.data.train->label(5), 6);
  expect_image(*cifar.data.train, 4, 3);
  expect_image(*cifar.data.train, 5, 30);
  ASSERT_EQ(cifar.data.test->size(), 1);
  expect_image(*cifar.data.test, 0, 99);
  ASSERT_EQ(cifar.class_names.size(), 10u);
  EXPECT_EQ(cifar.class_names[9], "name 9");
  ASSERT_EQ(cifar.notes.size(), 6u);
  EXPECT_EQ(cifar.notes[5],
            "warning: " + (data_ / "test_batch.bin").string() + " has 1 images; the published file has 10000");
}

TEST_F(CifarFiles, ReadsTheFolderOfTheArchive) {
  write_10("cifar-10-batches-bin/");
  EXPECT_EQ(read_cifar(data_.path(), false, false).data.train->size(), 10);
}

TEST_F(CifarFiles, ReadsFineAndCoarseLabels) {
  write_100();
  const Cifar fine = read_cifar(data_.path(), true, false), coarse = read_cifar(data_.path(), true, true);
  EXPECT_EQ(fine.data.train->classes(), 100);
  EXPECT_EQ(fine.data.train->label(0), 99);
  EXPECT_EQ(fine.class_names.size(), 100u);
  EXPECT_EQ(coarse.data.train->classes(), 20);
  EXPECT_EQ(coarse.data.train->label(0), 19);
  EXPECT_EQ(coarse.data.test->label(0), 3);
  EXPECT_EQ(coarse.class_names.size(), 20u);
  expect_image(*fine.data.train, 1, 2);
}

TEST_F(CifarFiles, BrokenFilesAreRefused) {
  expect_refused(false, {"no data_batch_1.bin, data_batch_2.bin", "batches.meta.txt in " + data_.path().string(),
                         "cifar-10-binary.tar.gz"});
  expect_refused(true, {"no train.bin, test.bin, fine_label_names.txt", "cifar-100-binary.tar.gz"});
  write_10();
  data_.write("data_batch_3.bin", record({1}, 1) + record({10}, 1));
  expect_refused(false, {(data_ / "data_batch_3.bin").string() + ": the label of record 1 is 10", "0 to 9"});
  data_.write("data_batch_3.bin", record({1}, 1) + "x");
  expect_refused(false, {"data_batch_3.bin: has 3074 bytes, which is not a multiple of a record's 3073"});
  data_.write("data_batch_3.bin", "");
  expect_refused(false, {"data_batch_3.bin: has 0 bytes"});
  write_10();
  data_.write("batches.meta.txt", names(9));
  expect_refused(false, {"batches.meta.txt: has 9 names of classes, not 10"});
  std::filesystem::remove(data_ / "test_batch.bin");
  expect_refused(false, {"cifar10: no test_batch.bin in"});
}

}  // namespace
}  // namespace ddp
