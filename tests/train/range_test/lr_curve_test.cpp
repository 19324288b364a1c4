#include "train/range_test/lr_curve.h"

#include "tests/judge.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

namespace ddp {
namespace {

constexpr LrRange kRange{.steps = 101, .from = 1e-6, .to = 1e4};

// The losses of a whole range by their rates.
LrCurve curve_of(const std::function<double(double lr)>& loss) {
  LrCurve curve;
  for (int64_t k = 0; k < kRange.steps; ++k)
    if (const double lr = lr_of_step(kRange, k); !curve.add(lr, loss(lr))) break;
  return curve;
}

std::optional<LrSuggestion> suggestion_of(const std::function<double(double lr)>& loss) {
  return suggest_lr(curve_of(loss).points(), kRange.steps);
}

TEST(LrCurve, RatesGrowByOneFactor) {
  EXPECT_EQ(lr_of_step(kRange, 0), 1e-6);
  EXPECT_NEAR(lr_of_step(kRange, 30), 1e-3, 1e-15);
  EXPECT_NEAR(lr_of_step(kRange, 100), 1e4, 1e-8);
}

// fastai's AvgSmoothLoss with beta 0.98, by hand.
TEST(LrCurve, SmoothsWithACorrectedBias) {
  LrCurve curve;
  EXPECT_TRUE(curve.add(0.1, 3) && curve.add(0.2, 2) && curve.add(0.3, 1));
  const auto& points = curve.points();
  EXPECT_NEAR(points[0].smoothed, 3, 1e-12);
  EXPECT_NEAR(points[1].smoothed, (0.98 * 3 + 2) / 1.98, 1e-12);
  EXPECT_NEAR(points[2].smoothed, (0.98 * 0.98 * 3 + 0.98 * 2 + 1) / (0.98 * 0.98 + 1.98), 1e-12);
  EXPECT_EQ(points[2].loss, 1);
  EXPECT_EQ(points[2].lr, 0.3);
}

TEST(LrCurve, EndsAboveFourTimesTheLeastOrWithoutANumber) {
  LrCurve curve;
  EXPECT_TRUE(curve.add(1, 1) && curve.add(2, 1));
  const double limit = (4 * (1 + 0.98 + 0.98 * 0.98) - (0.98 * 0.98 + 0.98));  // the third loss that gives 4
  LrCurve above = curve;
  EXPECT_TRUE(curve.add(3, limit - 0.01));
  EXPECT_FALSE(above.add(3, limit + 0.01));
  EXPECT_EQ(above.points().size(), 2u);
  for (const double loss : {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    LrCurve other;
    EXPECT_TRUE(other.add(1, 1));
    EXPECT_FALSE(other.add(2, loss));
    EXPECT_EQ(other.points().size(), 1u);
  }
}

// A bowl over the logarithm of the rate, least at 1.
double bowl(double lr) { return 3 - 2 * std::exp(-std::pow(std::log10(lr), 2)); }

TEST(LrCurve, SuggestsTheLowerOneOfItsCandidates) {
  const auto found = suggestion_of(bowl);
  ASSERT_TRUE(found);
  const LrCurve curve = curve_of(bowl);
  const auto& points = curve.points();
  double least = points[11].smoothed, at = 0, slope = 0, steepest = 0;
  for (size_t i = 11; i + 1 < points.size(); ++i) {
    if (points[i].smoothed < least) at = points[i].lr;
    least = std::min(least, points[i].smoothed);
    const double step = points[i + 1].smoothed - points[i].smoothed;
    if (step < slope) steepest = points[i].lr;
    slope = std::min(slope, step);
  }
  EXPECT_EQ(found->tenth, at / 10);
  EXPECT_EQ(found->steepest, steepest);
  EXPECT_EQ(found->lr, std::min(at / 10, steepest));
  EXPECT_FALSE(found->at_end);
  EXPECT_GE(found->lr, 0.1);  // the smoothed loss lags behind
  EXPECT_LE(found->lr, 10);
}

TEST(LrCurve, SuggestsNothingWithoutAFall) {
  EXPECT_FALSE(suggestion_of([](double) { return 2; }));
  EXPECT_FALSE(suggestion_of([](double lr) { return 2 + lr; }));
  EXPECT_FALSE(suggestion_of([](double lr) { return lr < 2e-6 ? 5 : 2 + lr; }));  // it fell in the first tenth only
  EXPECT_FALSE(suggestion_of([](double lr) { return lr < 1e-5 ? 2.0 : 1e9; }));   // it explodes at once
  EXPECT_FALSE(suggest_lr({}, 100));
}

// Losses of 2 +- 0.1 in the first tenth, then `after`.
std::optional<LrSuggestion> after_noise(double after) {
  return suggestion_of([&, up = false](double lr) mutable {
    up = !up;
    return lr < 1e-5 ? (up ? 2.1 : 1.9) : after;
  });
}

TEST(LrCurve, SuggestsNothingWithinTheNoise) {
  EXPECT_FALSE(after_noise(1.9));
  EXPECT_TRUE(after_noise(1.6));
}

TEST(LrCurve, SaysThatTheRangeEndsTooEarly) {
  const auto found = suggestion_of([](double lr) { return 5 - std::log10(lr); });
  ASSERT_TRUE(found);
  EXPECT_TRUE(found->at_end);
  EXPECT_NEAR(found->tenth, 1e3, 1e-6);
}

}  // namespace
}  // namespace ddp
