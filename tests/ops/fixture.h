// Shared by the tests of ops: tensors that own their memory.
#pragma once

#include "core/bf16.h"
#include "device/buffer.h"
#include "device/cpu/device.h"
#include "device/tensor.h"
#include "ops/cpu/layout.h"
#include "ops/cpu/ops.h"
#include "tests/ops/reference/ops.h"
#include "tests/values.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

namespace ddp::testing {

inline const Format kAllFormats[] = {{},
                                     Format::batch_interleaved(8),
                                     Format::batch_interleaved(16),
                                     Format::blocked_channels(8),
                                     Format::blocked_channels(16)};

// A tensor that owns its memory. Without values it holds NaN, so a test sees every element that an op did not write.
class Owned {
 public:
  Owned(Shape shape, Format format, DType dtype = DType::f32) : shape_(shape), format_(format), dtype_(dtype) {
    const int64_t count = stored_elements(shape, format);
    if (dtype == DType::f32)
      memory.assign(count, std::numeric_limits<float>::quiet_NaN());
    else
      half.assign(count, 0x7fc0);
  }
  Owned(Device& device, Shape shape, Format format, Values dense, DType dtype = DType::f32)
      : Owned(shape, format, dtype) {
    reorder(Workers{device, 1}, Tensor{dense.data(), shape, {}}, tensor());
  }

  Tensor tensor() {
    void* const data = dtype_ == DType::f32 ? static_cast<void*>(memory.data()) : half.data();
    return {data, shape_, format_, dtype_};
  }
  Values dense(Device& device) {
    Values values(shape_.elements());
    reorder(Workers{device, 1}, tensor(), Tensor{values.data(), shape_, {}});
    return values;
  }

  // Replaces each value in the lanes past n and the channels past c by f(value).
  template <class F>
  void each_padding(F&& f) {
    const int64_t block = format_.block, c = shape_.image.c, positions = shape_.image.h * shape_.image.w;
    const auto at = [&](int64_t i) {
      if (dtype_ == DType::f32)
        memory[i] = f(memory[i]);
      else
        half[i] = bf16_of_float(f(float_of_bf16(half[i])));
    };
    if (format_.kind == Format::Kind::batch_interleaved)
      for (int64_t n = shape_.n; n % block != 0; ++n)
        for (int64_t e = 0; e < shape_.image.elements(); ++e)
          at((n / block * shape_.image.elements() + e) * block + n % block);
    if (format_.kind == Format::Kind::blocked_channels)
      for (int64_t n = 0; n < shape_.n; ++n)
        for (int64_t p = 0; p < positions; ++p)
          for (int64_t k = c; k % block != 0; ++k)
            at(((n * ceil_div(c, block) + k / block) * positions + p) * block + k % block);
  }

  Values memory;               // f32 storage
  std::vector<uint16_t> half;  // bf16 storage

 private:
  Shape shape_;
  Format format_;
  DType dtype_;
};

// Expects exactly 0 in the lanes past n and the channels past c.
inline void expect_padding_zero(Owned& owned, const char* what) {
  int64_t wrong = 0;
  owned.each_padding([&](float value) {
    wrong += !(value == 0);
    return value;
  });
  EXPECT_EQ(wrong, 0) << what << " beside its values";
}

inline void expect_padding_finite(Owned& owned, const char* what) {
  int64_t wrong = 0;
  owned.each_padding([&](float value) {
    wrong += !std::isfinite(value);
    return value;
  });
  EXPECT_EQ(wrong, 0) << what << " beside its values";
}

// Expects a small error relative to the norm. In bf16 each value must also be within one unit in the last place.
inline void expect_close(const Values& actual, const Values& expected, DType dtype, const char* what) {
  if (dtype == DType::f32) return expect_close(actual, expected, what);
  ASSERT_EQ(actual.size(), expected.size()) << what;
  float largest = 0;
  for (const float v : expected) largest = std::max(largest, std::abs(v));
  for (size_t i = 0; i < actual.size(); ++i)
    ASSERT_LE(std::abs(actual[i] - expected[i]), 0x1p-8f * std::abs(expected[i]) + 1e-5f * largest)
        << what << " at " << i << ": " << actual[i] << " for " << expected[i];
}

inline const char* name_of(DType dtype) { return dtype == DType::bf16 ? "bf16" : "f32"; }
inline CpuOpsConfig config_of(DType dtype, int threads) {
  return {.threads = threads, .precision = dtype == DType::bf16 ? Precision::bf16 : Precision::fp32};
}

}  // namespace ddp::testing
