#include "ddp/quantiles.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace ddp {
namespace {

const std::vector<Quantile> kUniform{{0, 0}, {1, 1}};
const std::vector<Quantile> kTailed{{0, 0.9}, {0.5, 1}, {0.9, 1.1}, {0.99, 1.5}, {1, 4}};

TEST(Quantiles, GoThroughTheValues) {
  const std::vector<Quantile> quantiles = quantiles_of({5, 1, 4, 2, 3});
  EXPECT_EQ(quantiles.front().share, 0);
  EXPECT_EQ(quantiles.back().share, 1);
  EXPECT_EQ(value_at(quantiles, 0), 1);
  EXPECT_EQ(value_at(quantiles, 0.5), 3);
  EXPECT_NEAR(value_at(quantiles, 0.9), 4.6, 1e-12);
  EXPECT_EQ(value_at(quantiles, 1), 5);
  EXPECT_EQ(value_at(quantiles_of({7}), 0.3), 7);
  EXPECT_NEAR(value_at(kTailed, 0.25), 0.95, 1e-12);
}

// The largest of n uniform draws is n / (n + 1) on average.
TEST(ExpectedMaximum, IsThatOfUniformDraws) {
  for (const double n : {1.0, 2.0, 8.0, 1024.0, 65536.0})
    EXPECT_NEAR(expected_maximum(kUniform, n), n / (n + 1), 1e-12);
}

// Against a sum over many small steps of u^n.
TEST(ExpectedMaximum, IsTheIntegralOverTheQuantiles) {
  constexpr int kSteps = 200'000;
  double before = 0;
  for (const double n : {1.0, 3.0, 64.0, 1024.0}) {
    double sum = 0;
    for (int i = 0; i < kSteps; ++i) {
      const double low = static_cast<double>(i) / kSteps, high = static_cast<double>(i + 1) / kSteps;
      sum += value_at(kTailed, (low + high) / 2) * (std::pow(high, n) - std::pow(low, n));
    }
    EXPECT_NEAR(expected_maximum(kTailed, n), sum, 1e-6);
    EXPECT_GT(expected_maximum(kTailed, n), before);
    before = expected_maximum(kTailed, n);
  }
  EXPECT_NEAR(expected_maximum(std::vector<Quantile>{{0, 2}, {1, 2}}, 1000), 2, 1e-12);
}

}  // namespace
}  // namespace ddp
