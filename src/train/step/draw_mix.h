// Draws how the samples of a step are mixed (ops/batch_mix.h): a pure function of the seed, the epoch, and the number
// of the step within the epoch. Neither ranks nor micro-batches play a part.
//
//   lambda ~ Beta(alpha, alpha), one for each global batch, as torchvision's MixUp and CutMix. With both alphas, one of
//   the two is chosen with probability 1/2, as by RandomChoice in torchvision's references/classification/train.py.
//   CutMix: centre (x, y) uniform over the pixels, half sides floor(sqrt(1 - lambda) / 2 * (W, H)), clipped to the
//   image; then lambda = 1 - area of the box / (W H).
//
//   random(k) = philox4x32({k, step, epoch, Operation::mix}, seed)
//   random(0): word 0 < 2^31 chooses mixup, x = word 1 * W >> 32, y = word 2 * H >> 32; k > 0: of lambda
#pragma once

#include "core/shape.h"
#include "ops/batch_mix.h"

#include <cstdint>

namespace ddp {

struct MixConfig {
  double mixup_alpha = 0, cutmix_alpha = 0;  // 0: off; else at least kLeastMixAlpha

  bool any() const { return mixup_alpha > 0 || cutmix_alpha > 0; }
};
inline constexpr double kLeastMixAlpha = 1e-6, kMostMixAlpha = 1e6;

// `epoch` and `step` from 0; `step` within the epoch.
BatchMix draw_mix(const MixConfig& config, uint64_t seed, int64_t epoch, int64_t step, const ImageShape& image);

// Beta(alpha, alpha) by its definition X / (X + Y), with X and Y from Gamma(alpha) by the exact rejection method of
// Marsaglia and Tsang, "A simple method for generating gamma variables" (2000), in logarithms.
double draw_beta(double alpha, uint64_t seed, int64_t epoch, int64_t step);

}  // namespace ddp
