// What the tests of ops share: tensors with memory, values that repeat, and a norm to compare by.
#pragma once

#include "device/buffer.h"
#include "device/cpu/device.h"
#include "device/tensor.h"
#include "ops/cpu/layout.h"
#include "ops/cpu/ops.h"
#include "tests/reference/ops.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

namespace ddp::testing {

using Values = std::vector<float>;

// Values in [-1, 1) from a small generator; some exact zeros.
inline Values random_values(int64_t count, uint64_t seed) {
  Values values(count);
  uint64_t state = seed * 0x9e3779b97f4a7c15u + 1;
  for (float& v : values) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    v = static_cast<float>(static_cast<int64_t>(state >> 40) - (1 << 23)) / (1 << 23);
  }
  return values;
}

// A tensor with memory of its own, filled with NaN unless values are given: an op must write all that it promises.
class Owned {
 public:
  Owned(Shape shape, Format format)
      : memory(stored_elements(shape, format), std::numeric_limits<float>::quiet_NaN()),
        shape_(shape),
        format_(format) {}
  Owned(Device& device, Shape shape, Format format, Values dense) : Owned(shape, format) {
    reorder(Workers{device, 1}, Tensor{dense.data(), shape, {}}, tensor());
  }

  Tensor tensor() { return {memory.data(), shape_, format_}; }
  Values dense(Device& device) {
    Values values(shape_.elements());
    reorder(Workers{device, 1}, tensor(), Tensor{values.data(), shape_, {}});
    return values;
  }

  Values memory;

 private:
  Shape shape_;
  Format format_;
};

inline void expect_close(const Values& actual, const Values& expected, const char* what, double tolerance = 1e-5) {
  ASSERT_EQ(actual.size(), expected.size()) << what;
  double error = 0, norm = 0;
  for (size_t i = 0; i < actual.size(); ++i) {
    error += std::pow(static_cast<double>(actual[i]) - expected[i], 2);
    norm += std::pow(static_cast<double>(expected[i]), 2);
  }
  EXPECT_LE(std::sqrt(error), tolerance * std::sqrt(norm) + 1e-12) << what;  // also fails on NaN
}

// Lanes past n hold exactly `value`.
inline void expect_padding_zero(Owned& owned, const char* what) {
  const Tensor t = owned.tensor();
  if (t.format.kind != Format::Kind::lanes) return;
  const int64_t lanes = t.format.block, features = t.shape.image.elements();
  for (int64_t n = t.shape.n; n % lanes != 0; ++n)
    for (int64_t f = 0; f < features; ++f)
      ASSERT_EQ(t.f32()[(n / lanes * features + f) * lanes + n % lanes], 0.0f) << what << " lane " << n;
}

}  // namespace ddp::testing
