// Distances between results; tests compare them with a bound. A NaN in any place, or another number of values, makes a
// distance NaN. A NaN fails every EXPECT_LE, EXPECT_LT, EXPECT_GE and EXPECT_GT. (std::max() would lose it.)
#pragma once

#include <cmath>
#include <cstddef>
#include <span>

namespace ddp::testing {

// The larger one; NaN if one of them is NaN.
inline double worse(double a, double b) { return std::isnan(a) || a > b ? a : b; }

// How far a tensor is from the expected one.
struct Deviation {
  double error = 0, norm = 0;             // L2 norms of the differences and of the expected values
  double largest_error = 0, largest = 0;  // the largest absolute difference and expected value
};

inline Deviation deviation(std::span<const float> actual, std::span<const float> expected) {
  if (actual.size() != expected.size()) return {NAN, NAN, NAN, NAN};
  Deviation of;
  for (size_t i = 0; i < actual.size(); ++i) {
    const double wanted = expected[i], error = std::abs(actual[i] - wanted);
    of.error += error * error;
    of.norm += wanted * wanted;
    of.largest_error = worse(of.largest_error, error);
    of.largest = worse(of.largest, std::abs(wanted));
  }
  of.error = std::sqrt(of.error);
  of.norm = std::sqrt(of.norm);
  return of;
}

// The L2 distance over the norm of `expected`, or over `least` if that is larger.
inline double distance(std::span<const float> actual, std::span<const float> expected, double least = 0) {
  constexpr double kZero = 1e-12;  // the divisor if all expected values are 0
  const Deviation of = deviation(actual, expected);
  return of.error / worse(of.norm, worse(least, kZero));
}

// The largest distance of a loss from the expected one, over that.
inline double loss_distance(std::span<const double> actual, std::span<const double> expected) {
  if (actual.size() != expected.size()) return NAN;
  double worst = 0;
  for (size_t i = 0; i < actual.size(); ++i)
    worst = worse(worst, std::abs(actual[i] - expected[i]) / std::abs(expected[i]));
  return worst;
}

}  // namespace ddp::testing
