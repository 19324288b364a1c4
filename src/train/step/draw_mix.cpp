#include "train/step/draw_mix.h"

#include "core/philox.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace ddp {
namespace {

// random(k) of draw_mix.h, in order.
class MixDraws {
 public:
  MixDraws(uint64_t seed, int64_t epoch, int64_t step)
      : stream_(seed, Operation::mix, static_cast<uint32_t>(epoch)), step_(static_cast<uint64_t>(step)) {}

  Bits128 at(uint32_t k) const { return stream_.bits(step_ << 32 | k); }
  Bits128 next() { return at(++k_); }

 private:
  RandomStream stream_;
  uint64_t step_;
  uint32_t k_ = 0;
};

double uniform_above_0(uint32_t word) { return (word + 1.0) * 0x1p-32; }  // uniform in (0, 1]

// The logarithm of a number from Gamma(alpha). For alpha < 1: Gamma(alpha + 1) * U^(1 / alpha).
double log_gamma_number(double alpha, MixDraws& draws) {
  const double boost = alpha < 1 ? std::log(uniform_above_0(draws.next().word[0])) / alpha : 0;
  const double d = (alpha < 1 ? alpha + 1 : alpha) - 1.0 / 3, c = 1 / std::sqrt(9 * d);
  for (;;) {
    const Bits128 r = draws.next();
    const double normal =
        std::sqrt(-2 * std::log(uniform_above_0(r.word[0]))) * std::cos(r.word[1] * 0x1p-31 * std::numbers::pi);
    const double root = 1 + c * normal;
    if (root <= 0) continue;
    const double log_v = 3 * std::log(root);
    if (std::log(uniform_above_0(r.word[2])) < 0.5 * normal * normal + d - d * std::exp(log_v) + d * log_v)
      return std::log(d) + log_v + boost;
  }
}

double beta_number(double alpha, MixDraws& draws) {
  const double x = log_gamma_number(alpha, draws), y = log_gamma_number(alpha, draws);
  return 1 / (1 + std::exp(y - x));
}

BatchMix cut_out(double lambda, const Bits128& centre, const ImageShape& image) {
  const int64_t x = drawn_below(centre.word[1], image.w), y = drawn_below(centre.word[2], image.h);
  const double half = 0.5 * std::sqrt(1 - lambda);
  const auto w = static_cast<int64_t>(half * static_cast<double>(image.w)),
             h = static_cast<int64_t>(half * static_cast<double>(image.h));
  BatchMix mix{.top = static_cast<int32_t>(std::max<int64_t>(y - h, 0)),
               .left = static_cast<int32_t>(std::max<int64_t>(x - w, 0)),
               .bottom = static_cast<int32_t>(std::min(y + h, image.h)),
               .right = static_cast<int32_t>(std::min(x + w, image.w))};
  const double area = static_cast<double>(mix.bottom - mix.top) * (mix.right - mix.left);
  mix.lambda = static_cast<float>(1 - area / static_cast<double>(image.h * image.w));
  return mix;
}

}  // namespace

double draw_beta(double alpha, uint64_t seed, int64_t epoch, int64_t step) {
  MixDraws draws(seed, epoch, step);
  return beta_number(alpha, draws);
}

BatchMix draw_mix(const MixConfig& config, uint64_t seed, int64_t epoch, int64_t step, const ImageShape& image) {
  MixDraws draws(seed, epoch, step);
  const Bits128 first = draws.at(0);
  const bool both = config.mixup_alpha > 0 && config.cutmix_alpha > 0;
  const bool mixup = both ? first.word[0] < 0x80000000u : config.mixup_alpha > 0;
  const double lambda = beta_number(mixup ? config.mixup_alpha : config.cutmix_alpha, draws);
  return mixup ? BatchMix{.lambda = static_cast<float>(lambda)} : cut_out(lambda, first, image);
}

}  // namespace ddp
