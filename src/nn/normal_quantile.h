// The standard normal distribution.
#pragma once

#include <cmath>
#include <numbers>

namespace ddp {

inline double normal_cdf(double x) { return std::erfc(-x / std::numbers::sqrt2) / 2; }

// The x with normal_cdf(x) == p, for 0 < p < 1, to 7 digits: PPND7 of Wichura, "Algorithm AS 241: the percentage points
// of the normal distribution" (Applied Statistics 37, 1988).
inline double normal_quantile(double p) {
  const double q = p - 0.5;
  if (std::abs(q) <= 0.425) {
    const double r = 0.180625 - q * q;
    return q * (((59.109374720 * r + 159.29113202) * r + 50.434271938) * r + 3.3871327179) /
           (((67.187563600 * r + 78.757757664) * r + 17.895169469) * r + 1);
  }
  const double tail = std::sqrt(-std::log(q < 0 ? p : 1 - p));
  double x = 0;
  if (tail <= 5) {
    const double r = tail - 1.6;
    x = (((0.17023821103 * r + 1.3067284816) * r + 2.7568153900) * r + 1.4234372777) /
        ((0.12021132975 * r + 0.73700164250) * r + 1);
  } else {
    const double r = tail - 5;
    x = (((0.017337203997 * r + 0.42868294337) * r + 3.0812263860) * r + 6.6579051150) /
        ((0.012258202635 * r + 0.24197894225) * r + 1);
  }
  return q < 0 ? -x : x;
}

}  // namespace ddp
