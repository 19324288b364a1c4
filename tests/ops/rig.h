// What the tests of ops share: tensors with memory.
#pragma once

#include "device/buffer.h"
#include "device/cpu/device.h"
#include "device/tensor.h"
#include "ops/cpu/layout.h"
#include "ops/cpu/ops.h"
#include "tests/reference/ops.h"
#include "tests/values.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

namespace ddp::testing {

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
