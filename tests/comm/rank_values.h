// Small integers that differ by rank and element. Their sums are exact in any order.
#pragma once

#include <cstdint>
#include <vector>

namespace ddp {

inline float value(int rank, int64_t i) { return static_cast<float>((i * 5 + int64_t{rank} * 3) % 13); }

inline float sum_of_values(int ranks, int64_t i) {
  float sum = 0;
  for (int r = 0; r < ranks; ++r) sum += value(r, i);
  return sum;
}

inline std::vector<float> values(int rank, int64_t count) {
  std::vector<float> v(count);
  for (int64_t i = 0; i < count; ++i) v[i] = value(rank, i);
  return v;
}

}  // namespace ddp
