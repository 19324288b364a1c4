#include "train/step/draw_mix.h"

#include "tests/judge.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace ddp {
namespace {

constexpr ImageShape kMixedImage{32, 48, 3};

// The distribution function of Beta(a, a), by the continued fraction of the incomplete beta function (Numerical Recipes
// 6.4).
double beta_below(double x, double a) {
  if (x <= 0 || x >= 1) return x <= 0 ? 0 : 1;
  if (x > 0.5) return 1 - beta_below(1 - x, a);
  double c = 1, d = 1 / (1 - 2 * a * x / (a + 1)), sum = d;
  for (int m = 1; m < 500; ++m) {
    const double even = m * (a - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
    d = 1 / (1 + even * d);
    c = 1 + even / c;
    sum *= d * c;
    const double odd = -(a + m) * (2 * a + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
    d = 1 / (1 + odd * d);
    c = 1 + odd / c;
    sum *= d * c;
  }
  return std::exp(a * std::log(x) + a * std::log1p(-x) + std::lgamma(2 * a) - 2 * std::lgamma(a)) * sum / a;
}

// Kolmogorov and Smirnov: of right draws, one test in a thousand has a larger distance. The draws are always the same.
TEST(DrawMix, SharesHaveTheBetaDistribution) {
  constexpr int kDraws = 4000;
  EXPECT_NEAR(beta_below(0.3, 1), 0.3, 1e-12);
  EXPECT_NEAR(beta_below(0.25, 2), 3 * 0.0625 - 2 * 0.015625, 1e-12);
  EXPECT_NEAR(beta_below(0.25, 0.5), 1.0 / 3, 1e-12);  // arcsine
  for (const double alpha : {0.2, 0.5, 1.0, 1.7, 8.0, 300.0}) {
    std::vector<double> draws;
    for (int i = 0; i < kDraws; ++i) draws.push_back(draw_beta(alpha, 7, i / 50, i % 50));
    std::ranges::sort(draws);
    double distance = 0;
    for (int i = 0; i < kDraws; ++i) {
      const double expected = beta_below(draws[i], alpha);
      for (const int below : {i, i + 1})
        distance = testing::worse(distance, std::abs(expected - static_cast<double>(below) / kDraws));
    }
    EXPECT_LE(distance, 1.95 / std::sqrt(kDraws)) << alpha;
  }
}

TEST(DrawMix, IsAPureFunctionOfSeedEpochAndStep) {
  const MixConfig config{.mixup_alpha = 1};
  const float first = draw_mix(config, 1, 2, 3, kMixedImage).lambda;
  EXPECT_EQ(draw_mix(config, 1, 2, 3, kMixedImage).lambda, first);
  EXPECT_NE(draw_mix(config, 0, 2, 3, kMixedImage).lambda, first);
  EXPECT_NE(draw_mix(config, 1, 3, 3, kMixedImage).lambda, first);
  EXPECT_NE(draw_mix(config, 1, 2, 2, kMixedImage).lambda, first);
  EXPECT_NE(draw_mix(config, uint64_t{1} << 32 | 1, 2, 3, kMixedImage).lambda, first);
}

TEST(DrawMix, StaysInRangeForAllAlphas) {
  for (const double alpha : {kLeastMixAlpha, 0.001, kMostMixAlpha})
    for (int step = 0; step < 50; ++step) {
      const double lambda = draw_beta(alpha, 1, 0, step);
      EXPECT_TRUE(lambda >= 0 && lambda <= 1) << lambda;
      if (alpha == kMostMixAlpha) {
        EXPECT_NEAR(lambda, 0.5, 0.005);
      }
      if (alpha == kLeastMixAlpha) {
        EXPECT_TRUE(lambda < 1e-6 || lambda > 1 - 1e-6) << lambda;
      }
    }
}

// The box has the sides sqrt(1 - lambda), clipped; lambda becomes the share outside of it. Centres are uniform.
TEST(DrawMix, BoxesOfCutMixFitTheirShare) {
  constexpr int kDraws = 2000;
  const MixConfig config{.cutmix_alpha = 1};
  int whole = 0, at_the_top = 0, at_the_left = 0;
  for (int step = 0; step < kDraws; ++step) {
    const BatchMix mix = draw_mix(config, 3, 1, step, kMixedImage);
    ASSERT_TRUE(0 <= mix.top && mix.top <= mix.bottom && mix.bottom <= kMixedImage.h);
    ASSERT_TRUE(0 <= mix.left && mix.left <= mix.right && mix.right <= kMixedImage.w);
    const double area = (mix.bottom - mix.top) * (mix.right - mix.left);
    EXPECT_NEAR(mix.lambda, 1 - area / (kMixedImage.h * kMixedImage.w), 1e-7);
    const double half = 0.5 * std::sqrt(1 - draw_beta(1, 3, 1, step));
    const int h = 2 * static_cast<int>(half * kMixedImage.h), w = 2 * static_cast<int>(half * kMixedImage.w);
    EXPECT_LE(mix.bottom - mix.top, h);
    EXPECT_LE(mix.right - mix.left, w);
    const bool inside = mix.top > 0 && mix.left > 0 && mix.bottom < kMixedImage.h && mix.right < kMixedImage.w;
    if (inside) {
      EXPECT_EQ(mix.bottom - mix.top, h);
      EXPECT_EQ(mix.right - mix.left, w);
    }
    whole += inside ? 1 : 0;
    at_the_top += mix.top == 0 ? 1 : 0;
    at_the_left += mix.left == 0 ? 1 : 0;
  }
  // The side of a box is s = sqrt(1 - lambda) of the image's, whose density is 2 s.
  EXPECT_NEAR(whole, kDraws / 6.0, 70);
  EXPECT_NEAR(at_the_top, kDraws / 3.0, 100);
  EXPECT_NEAR(at_the_left, kDraws / 3.0, 100);
}

TEST(DrawMix, WithBothAlphasChoosesOneOfTheTwoForEachBatch) {
  constexpr int kDraws = 2000;
  const MixConfig both{.mixup_alpha = 1, .cutmix_alpha = 2}, mixup{.mixup_alpha = 1}, cutmix{.cutmix_alpha = 2};
  int mixups = 0;
  for (int step = 0; step < kDraws; ++step) {
    const float lambda = draw_mix(both, 4, 0, step, kMixedImage).lambda;
    const bool is_mixup = lambda == draw_mix(mixup, 4, 0, step, kMixedImage).lambda;
    mixups += is_mixup ? 1 : 0;
    EXPECT_NE(is_mixup, lambda == draw_mix(cutmix, 4, 0, step, kMixedImage).lambda);
    EXPECT_FALSE(draw_mix(mixup, 4, 0, step, kMixedImage).cuts());
  }
  EXPECT_NEAR(mixups, kDraws / 2, 4 * std::sqrt(kDraws / 4.0));
}

}  // namespace
}  // namespace ddp
