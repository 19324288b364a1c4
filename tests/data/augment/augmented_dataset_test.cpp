// Augmented samples through sampler and loader: every world, every number of threads and every first step sees the same
// pixels.
#include "data/augment/augmented_dataset.h"

#include "data/augment/affine.h"
#include "data/loader.h"
#include "data/memory_dataset.h"
#include "device/cpu/device.h"
#include "tests/expect_error.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <utility>
#include <vector>

namespace ddp {
namespace {

using Image = std::vector<uint8_t>;
using Images = std::map<std::pair<int64_t, int64_t>, Image>;  // by epoch and sample

constexpr ImageShape kImageShape{9, 7, 3};
constexpr int64_t kSamples = 22, kBatch = 5, kSteps = 10;  // two epochs
const AutoAugmentConfig kRandAugment{.policy = AutoAugmentConfig::Policy::ra, .ra_magnitude = 20, .seed = 4};

std::unique_ptr<Dataset> plain_data(const ImageShape& shape = kImageShape) {
  std::vector<uint8_t> pixels(static_cast<size_t>(kSamples * shape.elements()));
  for (size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<uint8_t>(i * i % 251);
  return std::make_unique<MemoryDataset>(shape, 3, pixels, std::vector<uint8_t>(kSamples, 1));
}

Image read_image(const Dataset& data, const SampleKey& key) {
  Image image(static_cast<size_t>(data.image_shape().elements()));
  data.read(key, image);
  return image;
}

TEST(AugmentedDataset, IsTheSameInEveryWorldWithAnyNumberOfThreadsAndAfterAnyStep) {
  const auto memory = make_cpu_device();
  const AugmentedDataset data(plain_data(), kRandAugment);
  for (const int world : {1, 2, 3})
    for (const int workers : {1, 3})
      for (const int64_t first : {0, 3}) {
        int64_t seen = 0;
        for (int rank = 0; rank < world; ++rank) {
          const DistributedSampler sampler(kSamples, kBatch, Order::shuffled, 1, rank, std::vector<double>(world, 1.0));
          Loader loader(data, sampler, first, kSteps, *memory, {.workers = workers});
          for (int64_t step = first; step < kSteps; ++step) {
            const HostBatch& batch = loader.next();
            for (int64_t i = 0; i < batch.plan.size; ++i, ++seen) {
              const uint8_t* const image = batch.samples + i * kImageShape.elements();
              EXPECT_EQ(Image(image, image + kImageShape.elements()),
                        read_image(data, {.index = batch.ids[i], .epoch = batch.plan.epoch}));
            }
          }
        }
        EXPECT_EQ(seen, 2 * kSamples - first * kBatch);
      }
}

TEST(AugmentedDataset, AppliesTheOperationsThatThePolicyDraws) {
  const AugmentedDataset data(plain_data(), kRandAugment);
  std::set<Image> all;
  int64_t changed = 0;
  for (int64_t index = 0; index < kSamples; ++index)
    for (int64_t epoch = 0; epoch < 3; ++epoch) {
      const SampleKey key{.index = index, .epoch = epoch};
      const Image before = read_image(data.unaugmented(), key), after = read_image(data, key);
      Image expected = before, scratch(scratch_bytes(kImageShape));
      for (const int number : {0, 1})
        apply_step(draw_step(kRandAugment, kImageShape, key, number), kImageShape, kRandAugment.interpolation, expected,
                   scratch);
      EXPECT_EQ(after, expected);
      changed += after != before;
      all.insert(after);
    }
  EXPECT_GE(changed, 2 * kSamples);
  EXPECT_GE(std::ssize(all), 2 * kSamples);
}

TEST(AugmentedDataset, RefusesChannelsThatTorchvisionRefuses) {
  expect_error(Exit::usage, {"--auto-augment needs images of 1 or 3 channels", "9 x 7 x 2"}, [] {
    AugmentedDataset(plain_data({9, 7, 2}), kRandAugment);
  });
  EXPECT_FALSE(AugmentedDataset(plain_data({9, 7, 1}), kRandAugment).in_memory());
}

}  // namespace
}  // namespace ddp
