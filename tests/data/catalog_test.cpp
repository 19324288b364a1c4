#include "data/catalog.h"

#include "data/subset.h"
#include "tests/data/idx_files.h"
#include "tests/expect_error.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace ddp {
namespace {

class Catalog : public ::testing::Test {
 protected:
  // Writes the files of "mnist" with images of 1 x 1 pixels, without the training labels.
  void write_all_but_training_labels() const {
    folder_.gzipped("train-images-idx3-ubyte.gz", idx_bytes(0x803, {2, 1, 1}, {5, 6}));
    folder_.plain("t10k-images-idx3-ubyte", idx_bytes(0x803, {1, 1, 1}, {7}));
    folder_.gzipped("t10k-labels-idx1-ubyte.gz", idx_bytes(0x801, {1}, {3}));
  }
  IdxFolder folder_;
};

TEST_F(Catalog, OpensAFolderThatMixesPlainAndGzipped) {
  write_all_but_training_labels();
  folder_.plain("train-labels-idx1-ubyte", idx_bytes(0x801, {2}, {1, 2}));
  for (const char* name : {"mnist", "fashion-mnist"}) {
    const Datasets data = open_datasets(name, folder_.path());
    EXPECT_EQ(data.train->size(), 2);
    EXPECT_EQ(data.train->label(1), 2);
    EXPECT_EQ(data.test->size(), 1);
    EXPECT_EQ(data.test->classes(), 10);
  }
}

TEST_F(Catalog, ErrorSaysHowToGetMissingFiles) {
  const std::string folder = folder_.path().string();
  expect_error(Exit::data,
               {"no train-images-idx3-ubyte in " + folder, "apt-get install dataset-fashion-mnist",
                "--data-path FOLDER", "t10k-labels-idx1-ubyte"},
               [&] { open_datasets("fashion-mnist", folder); });
  write_all_but_training_labels();
  expect_error(Exit::data, {"no train-labels-idx1-ubyte in " + folder, "https://", "--data-path FOLDER"},
               [&] { open_datasets("mnist", folder); });
}

TEST_F(Catalog, MnistNeedsAPath) {
  expect_error(Exit::usage, {"mnist needs --data-path FOLDER", "https://"}, [] { open_datasets("mnist", ""); });
}

TEST_F(Catalog, UnknownNamesListTheKnownOnes) {
  expect_error(Exit::usage, {"unknown dataset cifar", "fashion-mnist, mnist"}, [] { open_datasets("cifar", ""); });
}

// The real files of Debian's package dataset-fashion-mnist.
TEST(FashionMnist, MatchesThePublishedFiles) {
  const Datasets data = open_datasets("fashion-mnist", "");
  EXPECT_EQ(data.train->size(), 60'000);
  EXPECT_EQ(data.test->size(), 10'000);
  for (const Dataset* part : {data.train.get(), data.test.get()}) {
    EXPECT_EQ(part->image_shape(), (ImageShape{28, 28, 1}));
    std::vector<int64_t> counts(10);
    for (int64_t i = 0; i < part->size(); ++i) ++counts.at(part->label(i));
    EXPECT_EQ(counts, std::vector<int64_t>(10, part->size() / 10));
  }
  double sum = 0;
  Bytes image(28 * 28);
  for (int64_t i = 0; i < data.train->size(); ++i) {
    data.train->read({i}, image);
    for (uint8_t pixel : image) sum += pixel;
  }
  EXPECT_NEAR(sum / 60'000 / (28 * 28) / 255, 0.2860, 0.00005);  // the usual mean for normalization
  EXPECT_EQ(data.train->label(0), 9);
  EXPECT_EQ(data.test->label(0), 9);
}

TEST(SubsetOfADataset, HoldsTheFirstSamplesOnly) {
  const auto whole = [] { return open_datasets("fashion-mnist", "").test; };
  const Subset subset(whole(), 100);
  EXPECT_EQ(subset.size(), 100);
  EXPECT_EQ(subset.image_shape(), (ImageShape{28, 28, 1}));
  EXPECT_EQ(subset.classes(), 10);
  Bytes ours(28 * 28), theirs(28 * 28);
  const auto all = whole();
  for (int64_t i : {0, 99}) {
    subset.read({i}, ours);
    all->read({i}, theirs);
    EXPECT_EQ(ours, theirs);
    EXPECT_EQ(subset.label(i), all->label(i));
  }
  EXPECT_THROW(subset.label(100), Error);
  EXPECT_THROW(subset.read({100}, ours), Error);
  EXPECT_EQ(Subset(whole(), 10'000).size(), 10'000);
  expect_error(Exit::usage, {"10001", "holds 10000"}, [&] { Subset(whole(), 10'001); });
  expect_error(Exit::usage, {"0 samples"}, [&] { Subset(whole(), 0); });
}

}  // namespace
}  // namespace ddp
