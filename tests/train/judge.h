// Distances between gradients and between running statistics, tensor by tensor. A NaN in any place makes them NaN.
#pragma once

#include "nn/parameters.h"
#include "tests/judge.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <string>

namespace ddp::testing {

// The largest distance of a tensor.
struct Distance {
  double value = 0;
  std::string tensor;

  void see(double other, const std::string& name) {
    if (!std::isnan(value) && !(other <= value)) *this = {other, name};
  }
};

// Relative to the norm of each trained parameter's gradient. In a network with batch norms the divisor is at least a
// thousandth of the norm of all gradients: the gradient of a bias before a norm is only rounding, and others may be
// little else.
inline Distance gradient_distance(std::span<const Parameter> parameters, std::span<const float> actual,
                                  std::span<const float> expected) {
  if (actual.size() != expected.size()) return {NAN, "another number of values"};
  const bool norms =
      std::ranges::any_of(parameters, [](const Parameter& p) { return p.role == Parameter::Role::norm_shift; });
  const double least = norms ? 1e-3 * deviation(expected, expected).norm : 0;
  Distance worst;
  for (const Parameter& p : trained_of(parameters))
    worst.see(distance(actual.subspan(p.offset, p.count), expected.subspan(p.offset, p.count), least), p.name);
  return worst;
}

// Relative to the norm of each running mean and each running variance.
inline Distance stats_distance(std::span<const BatchNormState> batch_norms, std::span<const float> actual,
                               std::span<const float> expected) {
  if (actual.size() != expected.size()) return {NAN, "another number of values"};
  Distance worst;
  for (const BatchNormState& norm : batch_norms)
    for (const bool mean : {true, false}) {
      const int64_t at = norm.span.offset + (mean ? 0 : norm.span.channels), count = norm.span.channels;
      worst.see(distance(actual.subspan(at, count), expected.subspan(at, count)),
                norm.layer_name + (mean ? ".running_mean" : ".running_var"));
    }
  return worst;
}

}  // namespace ddp::testing
