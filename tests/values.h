// Values for tests of ops: reproducible random values, rounded to an op's activation type, and a norm for comparisons.
#pragma once

#include "comm/add.h"
#include "core/dtype.h"
#include "tests/judge.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace ddp::testing {

using Values = std::vector<float>;

// Reproducible random values in [-1, 1).
inline Values random_values(int64_t count, uint64_t seed) {
  Values values(count);
  uint64_t state = seed * 0x9e3779b97f4a7c15u + 1;
  for (float& v : values) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    v = static_cast<float>(static_cast<int64_t>(state >> 40) - (1 << 23)) / (1 << 23);
  }
  return values;
}

inline std::vector<uint16_t> bf16_of(const Values& values) {
  std::vector<uint16_t> bf16;
  for (const float v : values) bf16.push_back(bf16_of_float(v));
  return bf16;
}

inline Values rounded(Values values, DType dtype) {
  if (dtype == DType::bf16)
    for (float& v : values) v = float_of_bf16(bf16_of_float(v));
  return values;
}

inline void expect_close(const Values& actual, const Values& expected, const char* what, double tolerance = 1e-5) {
  ASSERT_EQ(actual.size(), expected.size()) << what;
  const Deviation of = deviation(actual, expected);
  EXPECT_LE(of.error, tolerance * of.norm + 1e-12) << what;
}

}  // namespace ddp::testing
