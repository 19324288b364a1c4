// A distribution by its quantile function, which is linear between points.
#pragma once

#include <span>
#include <vector>

namespace ddp {

// A share of all values is at most `value`.
struct Quantile {
  double share = 0, value = 0;
};

// The quantiles of values, which are not empty, from share 0 to share 1; close together near 1, because the slowest of
// many ranks is drawn from there.
std::vector<Quantile> quantiles_of(std::vector<double> values);

// The functions below take quantiles with shares that ascend from 0 to 1.
double value_at(std::span<const Quantile> quantiles, double share);

// The expected value of the largest of `draws` independent draws, one or more:
//   integral of Q(u) d(u^draws), u from 0 to 1,
// with Q the quantile function. Exact for a function that is linear between its points. Of one draw it is the mean.
double expected_maximum(std::span<const Quantile> quantiles, double draws);

}  // namespace ddp
