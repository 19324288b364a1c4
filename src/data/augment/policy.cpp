#include "data/augment/policy.h"

#include "core/error.h"
#include "core/philox.h"
#include "data/augment/affine.h"
#include "data/augment/pixel_ops.h"

#include <cmath>

namespace ddp {
namespace {

using Policy = AutoAugmentConfig::Policy;

// torch.linspace: from both ends to the middle, in float with fused multiply-add.
double linspace(float start, float end, int bin) {
  const double step = (end - start) / static_cast<float>(kAugmentBins - 1);
  const double value = bin < kAugmentBins / 2 ? start + step * bin : end - step * (kAugmentBins - 1 - bin);
  return static_cast<double>(static_cast<float>(value));
}

bool has_sign(AugmentOp op) { return AugmentOp::shear_x <= op && op <= AugmentOp::sharpness; }

}  // namespace

double magnitude_of(Policy policy, AugmentOp op, int bin, const ImageShape& image) {
  DDP_EXPECT(0 <= bin && bin < kAugmentBins);
  const bool wide = policy == Policy::ta_wide;
  const auto share_of = [](int64_t side) { return static_cast<float>(150.0 / 331.0 * static_cast<double>(side)); };
  switch (op) {
    case AugmentOp::identity:
    case AugmentOp::auto_contrast:
    case AugmentOp::equalize: return 0;
    case AugmentOp::shear_x:
    case AugmentOp::shear_y: return linspace(0, wide ? 0.99f : 0.3f, bin);
    case AugmentOp::translate_x: return linspace(0, wide ? 32 : share_of(image.w), bin);
    case AugmentOp::translate_y: return linspace(0, wide ? 32 : share_of(image.h), bin);
    case AugmentOp::rotate: return linspace(0, wide ? 135 : 30, bin);
    case AugmentOp::brightness:
    case AugmentOp::color:
    case AugmentOp::contrast:
    case AugmentOp::sharpness: return linspace(0, wide ? 0.99f : 0.9f, bin);
    case AugmentOp::posterize: return 8 - std::nearbyint(bin / ((kAugmentBins - 1) / (wide ? 6.0 : 4.0)));
    case AugmentOp::solarize: return linspace(255, 0, bin);
  }
  return 0;
}

AugmentStep draw_step(const AutoAugmentConfig& config, const ImageShape& image, const SampleKey& key, int number) {
  DDP_EXPECT(0 <= number && number < config.operations());
  const RandomStream stream(config.seed, Operation::auto_augment, static_cast<uint32_t>(key.epoch));
  const Bits128 random = stream.bits(static_cast<uint64_t>(key.index) * 2 + static_cast<uint64_t>(number));
  AugmentStep step{.op = static_cast<AugmentOp>(drawn_below(random.word[0], kAugmentOps))};
  const int bin = config.policy == Policy::ta_wide ? static_cast<int>(drawn_below(random.word[1], kAugmentBins))
                                                   : config.ra_magnitude;
  step.magnitude = magnitude_of(config.policy, step.op, bin, image);
  if (has_sign(step.op) && random.word[2] >> 31) step.magnitude = -step.magnitude;
  return step;
}

void apply_step(const AugmentStep& step, const ImageShape& shape, Interpolation interpolation, std::span<uint8_t> image,
                std::span<uint8_t> scratch) {
  const auto by = [&](const AffineMap& map) { resample(map, shape, interpolation, image, scratch); };
  const double m = step.magnitude;
  switch (step.op) {
    case AugmentOp::identity: return;
    case AugmentOp::shear_x: return by(shear_x(m, shape));
    case AugmentOp::shear_y: return by(shear_y(m, shape));
    case AugmentOp::translate_x: return by(translate(static_cast<int64_t>(m), 0));
    case AugmentOp::translate_y: return by(translate(0, static_cast<int64_t>(m)));
    case AugmentOp::rotate: return by(rotate(m));
    case AugmentOp::brightness: return adjust_brightness(1 + m, image);
    case AugmentOp::color: return adjust_saturation(1 + m, shape, image);
    case AugmentOp::contrast: return adjust_contrast(1 + m, shape, image);
    case AugmentOp::sharpness: return adjust_sharpness(1 + m, shape, image, scratch);
    case AugmentOp::posterize: return posterize(static_cast<int>(m), image);
    case AugmentOp::solarize: return solarize(m, image);
    case AugmentOp::auto_contrast: return autocontrast(shape, image);
    case AugmentOp::equalize: return equalize(shape, image);
  }
}

}  // namespace ddp
