// The median of measured values; of an even number of values, the upper one.
#pragma once

#include <algorithm>
#include <vector>

namespace ddp {

inline double median(std::vector<double> values) {
  const auto middle = values.begin() + std::ssize(values) / 2;
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace ddp
