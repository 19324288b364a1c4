// What the options of the data do to the images and labels that a network reads, as ddp_train show writes them. Two
// pictures are square noise, two have half the height.
#include "core/error.h"
#include "tests/system/cli/few_images.h"
#include "tests/system/cli/npy.h"
#include "tests/system/cli/png.h"

#include <map>
#include <random>
#include <vector>

namespace ddp::testing {
namespace {

namespace fs = std::filesystem;

constexpr int kSide = 12, kCrop = 8;
constexpr double kLevel = 1.0 / 255;

class InputOptions : public ::testing::Test {
 protected:
  InputOptions() {
    for (const auto& [name, height] : {std::pair("square", kSide), std::pair("wide", kSide / 2)})
      for (const char* picture : {"a/1.png", "b/2.png"}) {
        std::vector<uint8_t> pixels(static_cast<size_t>(kSide) * height * 3);
        for (uint8_t& pixel : pixels) pixel = static_cast<uint8_t>(random_());
        fs::create_directories((folder_ / name / picture).parent_path());
        write_png(folder_ / name / picture, kSide, height, 3, pixels);
      }
  }

  Outcome show(const std::string& data, const std::string& options, const fs::path& file) const {
    return program(0, fmt::format("show {} --mean none --batch-size 2 --steps 1 --batches {} {}",
                                  (folder_ / data).string(), file.string(), options));
  }
  // The values of two images, N C H W, from 0 to 1.
  std::vector<float> shown(const std::string& data, const std::string& options, int side = kCrop, int channels = 3) {
    const fs::path file = folder_ / fmt::format("{}.npy", ++files_);
    const Outcome outcome = show(data, options, file);
    EXPECT_EQ(outcome.code, 0) << options << ": " << outcome.output;
    auto values = read_npy<float>(file, "<f4", fmt::format("(2, {0}, {1}, {1}, )", channels, side));
    values.resize(static_cast<size_t>(2) * channels * side * side, NAN);
    return values;
  }
  void link(const char* picture, const std::string& data) const {
    for (const std::string name : {"a/1", "b/2"}) {
      const fs::path place = folder_ / data / (name + fs::path(picture).extension().string());
      fs::create_directories(place.parent_path());
      fs::create_symlink(fs::path(DDP_PICTURES) / picture, place);
    }
  }

  TempFolder folder_;

 private:
  std::mt19937 random_{3};
  int files_ = 0;
};

double largest_difference(const std::vector<float>& a, const std::vector<float>& b) {
  double largest = 0;
  for (size_t i = 0; i < a.size(); ++i)
    if (const double d = std::abs(double{a.at(i)} - b.at(i)); !(d <= largest)) largest = std::isnan(d) ? INFINITY : d;
  return largest;
}

struct Whole {
  const char *data, *options, *without;  // without one option
};

// These crops are the whole picture, and without one of their options a part of it.
TEST_F(InputOptions, CropsOfTheWholePictureEqualIt) {
  const std::vector<Whole> cases{
      {"square", "--train-transform rrc --rrc-scale 1,1 --rrc-ratio 1,1", "--train-transform rrc --rrc-ratio 1,1"},
      {"wide", "--train-transform rrc --rrc-scale 1,1 --rrc-ratio 2,2", "--train-transform rrc --rrc-scale 1,1"},
      {"square", "--train-transform resize-crop --val-resize-size 8", "--train-transform resize-crop"}};
  const std::string size = fmt::format("--train-crop-size {} --hflip 0 ", kCrop);
  std::map<std::string, std::vector<float>> stretched;
  for (const Whole& c : cases) {
    auto& whole = stretched[c.data];
    if (whole.empty()) whole = shown(c.data, size + "--train-transform stretch");
    EXPECT_LE(largest_difference(shown(c.data, size + c.options), whole), 1e-6) << c.options;
    EXPECT_GE(largest_difference(shown(c.data, size + c.without), whole), 0.1) << c.without;
  }
}

TEST_F(InputOptions, InterpolationNearestRepeatsPixels) {
  const int side = 2 * kSide;
  const std::string stretched = fmt::format("--train-transform stretch --hflip 0 --train-crop-size {} ", side);
  const auto pixels = shown("square", "--train-transform none", kSide);
  const auto nearest = shown("square", stretched + "--interpolation nearest", side);
  std::vector<float> expected(nearest.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    const size_t plane = i / (side * side), y = i / side % side, x = i % side;
    expected[i] = pixels[(plane * kSide + y / 2) * kSide + x / 2];
  }
  EXPECT_LE(largest_difference(nearest, expected), 1e-6);
  const auto bilinear = shown("square", stretched, side),
             bicubic = shown("square", stretched + "--interpolation bicubic", side);
  EXPECT_GE(largest_difference(bilinear, expected), 0.1);
  EXPECT_GE(largest_difference(bilinear, bicubic), 0.02);
}

TEST_F(InputOptions, ChannelsOfOneAreGrey) {
  const auto colour = shown("square", "", kSide), grey = shown("square", "--channels 1", kSide, 1);
  constexpr size_t kPlane = kSide * kSide;
  std::vector<float> expected(grey.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    const float* const red = &colour[i / kPlane * 3 * kPlane + i % kPlane];
    expected[i] = 0.299f * red[0] + 0.587f * red[kPlane] + 0.114f * red[2 * kPlane];
  }
  EXPECT_LE(largest_difference(grey, expected), kLevel);
}

// Orientation 6 means that the upright picture is the stored one after a quarter turn clockwise.
TEST_F(InputOptions, ExifIgnoreKeepsTheStoredOrientation) {
  link("exif-6.jpg", "turned");
  const std::string stretched = fmt::format("--train-transform stretch --hflip 0 --train-crop-size {} ", kCrop);
  const auto upright = shown("turned", stretched), stored = shown("turned", stretched + "--exif ignore");
  std::vector<float> turned(stored.size());
  for (size_t i = 0; i < turned.size(); ++i) {
    const size_t plane = i / (kCrop * kCrop), y = i / kCrop % kCrop, x = i % kCrop;
    turned[i] = stored[(plane * kCrop + kCrop - 1 - x) * kCrop + y];
  }
  EXPECT_LE(largest_difference(upright, turned), 3 * kLevel);
  EXPECT_GE(largest_difference(upright, stored), 0.1);
}

// With opacity a, a pixel is a * colour on black, and 1 - a more on white: the same in all channels.
TEST_F(InputOptions, AlphaChoosesTheBackground) {
  link("rgba.png", "clear");
  const std::string stretched = fmt::format("--train-transform stretch --hflip 0 --train-crop-size {} ", kCrop);
  const auto white = shown("clear", stretched + "--alpha white"), black = shown("clear", stretched + "--alpha black"),
             dropped = shown("clear", stretched);
  constexpr size_t kPlane = kCrop * kCrop;
  std::vector<float> more(white.size()), of_red(white.size());
  for (size_t i = 0; i < more.size(); ++i) more[i] = white[i] - black[i];
  for (size_t i = 0; i < more.size(); ++i) of_red[i] = more[i / (3 * kPlane) * 3 * kPlane + i % kPlane];
  EXPECT_LE(largest_difference(more, of_red), 3 * kLevel);
  EXPECT_GE(*std::ranges::max_element(more), 0.2);
  EXPECT_GE(largest_difference(dropped, white), 0.1);
  EXPECT_GE(largest_difference(dropped, black), 0.1);
}

TEST_F(InputOptions, DatasetChoosesAmongTheKindsOfAFolder) {
  few_images(folder_ / "square", 2, 2);
  shown("square", "", 28, 1);
  shown("square", "--dataset folder", kSide);
}

TEST_F(InputOptions, CoarseLabelsAreTheFirstBytes) {
  std::string record(3074, '\x40'), names;
  record[0] = 7, record[1] = 53;
  for (int i = 0; i < 100; ++i) names += fmt::format("{}\n", i);
  for (const char* part : {"train.bin", "test.bin"}) folder_.write(fmt::format("cifar/{}", part), record + record);
  folder_.write("cifar/fine_label_names.txt", names);
  folder_.write("cifar/coarse_label_names.txt", names.substr(0, names.find("20\n")));
  for (const auto& [options, label] : {std::pair("", 53), std::pair("--coarse-labels", 7)}) {
    const std::string file = fmt::format("labels{}", label);
    const Outcome outcome = show("cifar", options, folder_ / (file + ".npy"));
    EXPECT_EQ(outcome.code, 0) << outcome.output;
    EXPECT_EQ(read_npy<int64_t>(folder_ / (file + ".labels.npy"), "<i8", "(2, )"), std::vector<int64_t>(2, label));
  }
}

// A validation picture with a wrong pixel, and one that is no picture.
TEST_F(InputOptions, CheckDataLooksAtHeadersPixelsOrNothing) {
  std::string picture = read_file(folder_ / "square/a/1.png");
  char& byte = picture[picture.size() / 2];
  byte = static_cast<char>(byte ^ 1);
  fs::create_directories(folder_ / "bad");
  fs::copy(folder_ / "square", folder_ / "bad/train", fs::copy_options::recursive);
  const auto expect = [&](const std::string& checked, bool found) {
    const fs::path file = folder_ / "batches.npy";
    fs::remove(file);
    fs::remove(folder_ / "batches.labels.npy");
    const Outcome outcome = show("bad", fmt::format("--train-crop-size {} --check-data {}", kCrop, checked), file);
    EXPECT_EQ(outcome.code, static_cast<int>(found ? Exit::data : Exit::done)) << outcome.output;
    EXPECT_EQ(count(outcome.output, "val/a/bad.png: "), found) << outcome.output;
  };
  folder_.write("bad/val/a/bad.png", picture);
  expect("headers", false);
  expect("full", true);
  folder_.write("bad/val/a/bad.png", "<html>");
  expect("headers", true);
  expect("none", false);
}

}  // namespace
}  // namespace ddp::testing
