#include "ddp/noise_scale.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace ddp {
namespace {

TEST(NoiseScale, FollowsFromTheExpectedSquares) {
  const double gradient = 3, trace = 1200, batch = 64;  // 400 samples
  const double whole = gradient + trace / batch;
  EXPECT_NEAR(noise_scale({.parts = 0.5 * gradient + trace / batch, .whole = whole, .share = 0.5}, batch), 400, 1e-9);
  const double p = 0.25;
  EXPECT_NEAR(
      noise_scale({.parts = p * p * gradient + p * trace / batch, .whole = whole, .share = p * p, .noise = p}, batch),
      400, 1e-9);
}

TEST(NoiseScale, IsNotKnownFromOnePartOrFromNoiseAlone) {
  EXPECT_TRUE(std::isnan(noise_scale({.parts = 7, .whole = 7}, 64)));
  EXPECT_TRUE(std::isnan(noise_scale({.parts = 8, .whole = 7, .share = 0.5}, 64)));
  EXPECT_TRUE(
      std::isnan(noise_scale({.parts = std::numeric_limits<double>::infinity(), .whole = 7, .share = 0.5}, 64)));
  EXPECT_TRUE(std::isnan(noise_scale({.parts = std::nan(""), .whole = 7, .share = 0.5}, 64)));
}

// Samples whose gradients have a known mean and variance, on ranks of different sizes.
TEST(NoiseScale, EstimatesThatOfRandomGradients) {
  constexpr int kValues = 50, kSteps = 2000;
  const std::vector<int> sizes{3, 1, 4};
  std::mt19937 random(1);
  std::normal_distribution<double> normal(0.5, 2);
  GradientSquares squares{.share = (9.0 + 1 + 16) / 64};
  for (int step = 0; step < kSteps; ++step) {
    std::vector<double> whole(kValues);
    for (const int size : sizes) {
      std::vector<double> part(kValues);
      for (double& value : part)
        for (int i = 0; i < size; ++i) value += normal(random) / 8;
      for (int k = 0; k < kValues; ++k) {
        squares.parts += part[k] * part[k];
        whole[k] += part[k];
      }
    }
    for (const double value : whole) squares.whole += value * value;
  }
  EXPECT_NEAR(noise_scale(squares, 8), 4 / 0.25, 0.8);
}

}  // namespace
}  // namespace ddp
