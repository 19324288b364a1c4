// ddp_train show: its batches and its sheet of pictures are what a training gets.
#include "core/error.h"
#include "core/philox.h"
#include "data/augment/affine.h"
#include "data/augment/policy.h"
#include "data/codec/picture.h"
#include "data/sampler.h"
#include "tests/system/cli/job.h"
#include "tests/system/cli/npy.h"
#include "tests/system/cli/png.h"
#include "tests/system/cli/run_folder.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <span>
#include <utility>
#include <vector>

namespace ddp::testing {
namespace {

namespace fs = std::filesystem;

struct Image {
  int w = 0, h = 0;
  std::vector<uint8_t> rgb;  // HWC
};

Image decode(const fs::path& path) {
  const std::string file = read_file(path);
  const std::span bytes(reinterpret_cast<const uint8_t*>(file.data()), file.size());
  const PictureHeader header = read_picture_header(bytes, false);
  Image image{static_cast<int>(header.size.w), static_cast<int>(header.size.h), {}};
  image.rgb.resize(static_cast<size_t>(header.size.w * header.size.h * 3));
  PictureDecoder({}).decode(bytes, header,
                            {.source = {0, 0, header.size.w, header.size.h},
                             .resized = header.size,
                             .window = {0, 0, header.size.w, header.size.h}},
                            image.rgb);
  return image;
}

// Noise of one size in two classes. The names of the files are in the order of their samples.
class Show : public ::testing::Test {
 protected:
  static constexpr int kSamples = 22, kOfFirstClass = 9, kW = 9, kH = 7;

  Show() {
    for (int sample = 0; sample < kSamples; ++sample) {
      const fs::path path =
          data / "train" / (label(sample) == 0 ? "Ab" : "t\u00fcr") / fmt::format("{}.png", 100 + sample);
      fs::create_directories(path.parent_path());
      std::vector<uint8_t>& pixels = images.emplace_back(kW * kH * 3);
      for (uint8_t& pixel : pixels) pixel = static_cast<uint8_t>(random());
      write_png(path, kW, kH, 3, pixels);
    }
  }

  static int label(int64_t sample) { return sample < kOfFirstClass ? 0 : 1; }
  Outcome show(const std::string& arguments) const {
    return program(0, fmt::format("show {} {}", data.string(), arguments));
  }

  // Where pixel (y, x) comes from by RandomCrop(padding=2, reflected) and RandomHorizontalFlip(0.5), by definition.
  static int64_t source_of(int64_t sample, int64_t epoch, int64_t y, int64_t x) {
    const auto draw = [&](Operation operation) {
      return philox4x32(
          {{0, static_cast<uint32_t>(sample), static_cast<uint32_t>(epoch), static_cast<uint32_t>(operation)}}, kSeed);
    };
    const auto mirrored = [](int64_t at, int64_t size) { return at < 0 ? -at : at >= size ? 2 * size - 2 - at : at; };
    const Bits128 crop = draw(Operation::padded_crop);
    const int64_t top = static_cast<int64_t>(crop.word[0] * uint64_t{5} >> 32) - 2;
    const int64_t left = static_cast<int64_t>(crop.word[1] * uint64_t{5} >> 32) - 2;
    const bool flipped = draw(Operation::flip).word[0] < 0x80000000u;
    const int64_t row = mirrored(y + top, kH), column = mirrored((flipped ? kW - 1 - x : x) + left, kW);
    return (row * kW + column) * 3;
  }
  const uint8_t* augmented(int64_t sample, int64_t epoch, int64_t y, int64_t x) const {
    return &images[sample][source_of(sample, epoch, y, x)];
  }

  static constexpr uint64_t kSeed = 5;
  const char* const kAugmented =
      "--crop-padding 2 --padding-mode reflect --hflip 0.5 --seed 5 --mean 0.4,0.5,0.6 --std 0.2,0.25,0.3 ";
  std::mt19937 random{11};
  std::vector<std::vector<uint8_t>> images;
  const TempFolder folder;
  const fs::path data = folder / "data";
};

TEST_F(Show, WritesTheBatchesOfTheSteps) {
  const fs::path file = folder / "b.npy";
  const Outcome outcome =
      show(fmt::format("{} --batch-size 6 --epoch 2 --steps 5 --batches {}", kAugmented, file.string()));
  ASSERT_EQ(outcome.code, 0) << outcome.output;
  const auto values = read_npy<float>(file, "<f4", "(28, 3, 7, 9, )");
  const auto labels = read_npy<int64_t>(folder / "b.labels.npy", "<i8", "(28, )");
  ASSERT_EQ(values.size(), 28u * 3 * kH * kW);
  ASSERT_EQ(labels.size(), 28u);
  const DistributedSampler order(kSamples, 6, Order::shuffled, kSeed, 0, {1.0});
  const double mean[] = {0.4, 0.5, 0.6}, deviation[] = {0.2, 0.25, 0.3};
  int64_t at = 0;
  for (int64_t i = 0; i < 28; ++i) {  // all of one epoch, then a step of the next one
    const int64_t epoch = i < kSamples ? 1 : 2, sample = order.sample(epoch, i % kSamples);
    EXPECT_EQ(labels[i], label(sample));
    for (int c = 0; c < 3; ++c)
      for (int y = 0; y < kH; ++y)
        for (int x = 0; x < kW; ++x, ++at)
          ASSERT_NEAR(values[at], (augmented(sample, epoch, y, x)[c] / 255.0 - mean[c]) / deviation[c], 1e-6)
              << "sample " << sample << " channel " << c << " row " << y << " column " << x;
  }
}

// Before the crop and the flip of the device.
TEST_F(Show, AppliesTheDrawnOperationsFirst) {
  const fs::path file = folder / "b.npy";
  const Outcome outcome =
      show(fmt::format("{} --auto-augment ra --ra-magnitude 20 --interpolation nearest --workers 3 --batch-size {} "
                       "--epoch 2 --steps 1 --batches {}",
                       kAugmented, kSamples, file.string()));
  ASSERT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_EQ(count(outcome.output,
                  "input: none 9 x 7, nearest, auto-augment ra 20 nearest, crop padding 2 reflect, flips 0.5\n"),
            1)
      << outcome.output;
  const auto values = read_npy<float>(file, "<f4", "(22, 3, 7, 9, )");
  ASSERT_EQ(values.size(), 22u * 3 * kH * kW);
  const DistributedSampler order(kSamples, kSamples, Order::shuffled, kSeed, 0, {1.0});
  const AutoAugmentConfig config{.policy = AutoAugmentConfig::Policy::ra,
                                 .ra_magnitude = 20,
                                 .interpolation = Interpolation::nearest,
                                 .seed = kSeed};
  constexpr ImageShape kShape{kH, kW, 3};
  const double mean[] = {0.4, 0.5, 0.6}, deviation[] = {0.2, 0.25, 0.3};
  std::vector<uint8_t> scratch(scratch_bytes(kShape));
  int64_t at = 0;
  for (int64_t i = 0; i < kSamples; ++i) {
    const int64_t sample = order.sample(1, i);
    std::vector<uint8_t> image = images[sample];
    for (const int number : {0, 1})
      apply_step(draw_step(config, kShape, {.index = sample, .epoch = 1}, number), kShape, config.interpolation, image,
                 scratch);
    for (int c = 0; c < 3; ++c)
      for (int y = 0; y < kH; ++y)
        for (int x = 0; x < kW; ++x, ++at)
          ASSERT_NEAR(values[at], (image[source_of(sample, 1, y, x) + c] / 255.0 - mean[c]) / deviation[c], 1e-6)
              << "sample " << sample << " channel " << c << " row " << y << " column " << x;
  }
}

TEST_F(Show, DrawsTheFirstPicturesOfAnEpoch) {
  const fs::path file = folder / "grid.png";
  const Outcome outcome = show(fmt::format("{} --output {}", kAugmented, file.string()));
  ASSERT_EQ(outcome.code, 0) << outcome.output;
  const int zoom = 11, gap = 4, cell_w = kW * zoom + gap, cell_h = kH * zoom + 10 + gap;
  const Image grid = decode(file);
  ASSERT_EQ(grid.w, 8 * cell_w + gap);
  ASSERT_EQ(grid.h, 3 * cell_h + gap);
  const DistributedSampler order(kSamples, 1, Order::shuffled, kSeed, 0, {1.0});
  std::string names[2];  // their ink
  for (int i = 0; i < kSamples; ++i) {
    const int64_t sample = order.sample(0, i), left = gap + i % 8 * cell_w, top = gap + i / 8 * cell_h;
    const auto pixel = [&](int64_t y, int64_t x) { return &grid.rgb[((top + y) * grid.w + left + x) * 3]; };
    for (int y = 0; y < kH * zoom; ++y)
      for (int x = 0; x < kW * zoom; ++x)
        ASSERT_EQ(std::memcmp(pixel(y, x), augmented(sample, 0, y / zoom, x / zoom), 3), 0) << sample;
    std::string ink;
    for (int y = kH * zoom; y < kH * zoom + 10; ++y)
      for (int x = 0; x < kW * zoom; ++x) ink += *pixel(y, x) == 0 ? '#' : *pixel(y, x) == 255 ? ' ' : '?';
    std::string& name = names[label(sample)];
    EXPECT_TRUE(name.empty() || name == ink);
    name = ink;
  }
  // Ab and t?r: the second character is one byte of ink in both.
  const auto row = [&](int name, int y) { return names[name].substr((2 + y) * kW * zoom, 18); };
  EXPECT_EQ(row(0, 0), "  #   #           ");
  EXPECT_EQ(row(0, 4), "##### #   #       ");
  EXPECT_EQ(row(1, 2), "###       # # ##  ");
  EXPECT_EQ(row(1, 6), "  ##    #   #     ");
  EXPECT_EQ(std::ranges::count(names[0], '?') + std::ranges::count(names[1], '?'), 0);
}

TEST_F(Show, CreatesFilesOnlyAndLeavesNoneAfterAnError) {
  const std::string grid = (folder / "grid.png").string(), there = (folder / "there.png").string(),
                    batches = (folder / "b.npy").string();
  std::ofstream(there) << "mine";
  fs::create_symlink(folder / "target.png", folder / "link.png");
  std::ofstream(folder / "b.labels.npy") << "mine";
  struct Refused {
    std::string arguments;
    Exit code;
    const char* text;
  };
  const std::vector<Refused> cases = {
      {"--output " + there, Exit::output, "there.png: File exists; remove it, or choose another name"},
      {"--output " + (folder / "link.png").string(), Exit::output, "link.png: File exists"},
      {fmt::format("--output {} --batches {} --steps 1", grid, batches), Exit::output, "b.labels.npy: File exists"},
      {"--output " + grid + " --coarse-labels", Exit::usage, "--coarse-labels needs --dataset cifar100"},
      {"", Exit::usage, "show needs --output FILE.png, --batches FILE.npy, or both"},
      {"--output " + grid + " --resume x", Exit::usage, "no --resume"},
      {"--output " + grid + " --steps 2", Exit::usage, "--batches and --steps need each other"},
      {"--output " + grid + " --data-path x", Exit::usage, "--data-path"},
      {"--output picture.jpg", Exit::usage, "the name must end in .png"}};
  for (const Refused& bad : cases) {
    const Outcome outcome = show(bad.arguments);
    EXPECT_EQ(outcome.code, static_cast<int>(bad.code)) << outcome.output;
    EXPECT_EQ(count(outcome.output, "error:"), 1) << outcome.output;
    EXPECT_EQ(count(outcome.output, bad.text), 1) << bad.text << "\n" << outcome.output;
  }
  const Outcome two = program(2, fmt::format("show --data-path {} --output {}", data.string(), grid));
  EXPECT_EQ(two.code, static_cast<int>(Exit::usage));
  EXPECT_EQ(count(two.output, "show runs on one rank, not on 2"), 1) << two.output;
  for (const char* name : {"grid.png", "b.npy", "target.png"}) EXPECT_FALSE(fs::exists(folder / name)) << name;
  EXPECT_EQ(read_file(there) + read_file(folder / "b.labels.npy"), "minemine");
}

TEST_F(Show, LeavesNoFilesAfterASignal) {
  const fs::path batches = folder / "b.npy", labels = folder / "b.labels.npy";
  const std::string endless =
      fmt::format("show {} {} --steps 1000000 --batches {}", data.string(), kAugmented, batches.string());
  for (const int signal : {SIGTERM, SIGKILL}) {
    Job job(folder, 1, endless);
    ASSERT_TRUE(job.says("mean and standard deviation"));
    ::kill(job.rank(0), signal);
    const int code = job.end();
    if (signal == SIGTERM) {
      EXPECT_EQ(code, static_cast<int>(Exit::stopped)) << job.output();
      EXPECT_EQ(count(job.output(), "SIGTERM: show stops and writes nothing"), 1) << job.output();
    }
    EXPECT_FALSE(fs::exists(batches) || fs::exists(labels));
  }
}

Doubles linear(const Doubles& weight, const Doubles& bias, const Doubles& x) {
  Doubles y = bias;
  for (size_t o = 0; o < y.size(); ++o) y[o] += (Doubles(weight[std::slice(o * x.size(), x.size(), 1)]) * x).sum();
  return y;
}

// The loss that PyTorch's mlp has for a sample, CHW.
double loss_of(const Weights& weights, std::span<const float> image, int64_t label) {
  Doubles pixels(image.size());
  std::copy(image.begin(), image.end(), std::begin(pixels));
  Doubles hidden = linear(weights.at("1.weight"), weights.at("1.bias"), pixels);
  for (double& value : hidden) value = std::max(value, 0.0);
  const Doubles logits = linear(weights.at("3.weight"), weights.at("3.bias"), hidden);
  return std::log(std::exp(logits).sum()) - logits[label];
}

// A training on two ranks at rate 0 has, in each step, the loss of the batch that show has written.
TEST(ShownBatches, HaveTheLossesOfTheTraining) {
  const TempFolder folder;
  int number = 0;
  for (const char* name : {"rgb.jpg", "sampling-2x2.jpg", "exif-6.jpg", "rgba.png", "tall.png", "sampling-grey.jpg"})
    for (int copy = 0; copy < 3; ++copy, ++number) {
      const fs::path link = folder / "data" / (number % 2 ? "dog" : "cat") /
                            fmt::format("{}{}", number, fs::path(name).extension().string());
      fs::create_directories(link.parent_path());
      fs::create_symlink(fs::path(DDP_PICTURES) / name, link);
    }
  const std::string options = fmt::format(
      "--data-path {} --model mlp --train-crop-size 12 --rrc-scale 0.3,1 --interpolation bicubic --crop-padding 1 "
      "--hflip alternate --val-split 0.2 --train-samples 13 --batch-size 5 --accumulate 2 --seed 3 --epochs 2",
      (folder / "data").string());
  const Outcome shown = program(0, fmt::format("show {} --steps 6 --batches {}", options, (folder / "b.npy").string()));
  ASSERT_EQ(shown.code, 0) << shown.output;
  const Outcome trained =
      program(2, fmt::format("{} --lr 0 --save-every never --output-dir {}", options, (folder / "run").string()));
  ASSERT_EQ(trained.code, 0) << trained.output;

  const auto values = read_npy<float>(folder / "b.npy", "<f4", "(26, 3, 12, 12, )");
  const auto labels = read_npy<int64_t>(folder / "b.labels.npy", "<i8", "(26, )");
  ASSERT_EQ(values.size(), 26u * 432);
  ASSERT_EQ(labels.size(), 26u);
  const Weights weights = read_weights(folder / "run" / "model.safetensors");
  std::vector<double> of_samples;
  for (size_t i = 0; i < labels.size(); ++i)
    of_samples.push_back(loss_of(weights, std::span(values).subspan(i * 432, 432), labels[i]));
  size_t first = 0, steps = 0;
  for (const double loss : values_of<double>(folder / "run", "step", "loss")) {
    const size_t size = steps++ % 3 == 2 ? 3 : 5;
    double sum = 0;
    for (size_t i = first; i < first + size; ++i) sum += of_samples.at(i);
    first += size;
    EXPECT_NEAR(loss, sum / static_cast<double>(size), 1e-5) << "step " << steps;
  }
  EXPECT_EQ(steps, 6u);
}

}  // namespace
}  // namespace ddp::testing
