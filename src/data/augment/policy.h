// Automatic augmentation: which operations change a training image, and how strongly. The policies are torchvision's:
//
//   ta_wide  TrivialAugmentWide (Mueller and Hutter, 2021): one of 14 operations, with one of 31 magnitudes
//   ra       RandAugment (Cubuk et al., 2019) with num_ops 2: two of 14 operations, both with the given magnitude
//
// The draws are a pure function of (seed, epoch, sample). Operation n of a sample is drawn from
//
//   word     = philox4x32({2 sample + n, epoch, Operation::auto_augment}, seed)
//   op       = word[0] * 14 >> 32          in the order of AugmentOp
//   bin      = word[1] * 31 >> 32          of ta_wide
//   negative = word[2] >= 2^31             of the operations that have a sign
#pragma once

#include "core/shape.h"
#include "data/dataset.h"
#include "data/geometry.h"

#include <cstddef>
#include <cstdint>
#include <span>

namespace ddp {

enum class AugmentOp : uint8_t {
  identity,
  shear_x,
  shear_y,
  translate_x,
  translate_y,
  rotate,
  brightness,
  color,
  contrast,
  sharpness,
  posterize,
  solarize,
  auto_contrast,
  equalize,
};
inline constexpr int kAugmentOps = 14, kAugmentBins = 31;

struct AutoAugmentConfig {
  enum class Policy : uint8_t { none, ta_wide, ra };
  Policy policy = Policy::none;
  int ra_magnitude = 9;                                   // of ra; 0 to 30
  Interpolation interpolation = Interpolation::bilinear;  // of shears, translations and rotations; not bicubic
  uint64_t seed = 0;

  int operations() const { return policy == Policy::none ? 0 : policy == Policy::ta_wide ? 1 : 2; }  // of an image
};

struct AugmentStep {
  AugmentOp op = AugmentOp::identity;
  double magnitude = 0;  // tangent, pixels, degrees, factor - 1, bits or threshold
};

// A magnitude without its sign, in 31 bins; in float, as torch.linspace computes it. Translations of ra are shares of
// the image.
double magnitude_of(AutoAugmentConfig::Policy policy, AugmentOp op, int bin, const ImageShape& image);

// Operation `number` of a sample, below operations().
AugmentStep draw_step(const AutoAugmentConfig& config, const ImageShape& image, const SampleKey& key, int number);

// Changes an HWC image of 1 or 3 channels in place. `scratch`: scratch_bytes(shape).
void apply_step(const AugmentStep& step, const ImageShape& shape, Interpolation interpolation, std::span<uint8_t> image,
                std::span<uint8_t> scratch);

}  // namespace ddp
