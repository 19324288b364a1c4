// Shared by the reference ops: loops over dense f32 tensors.
#pragma once

#include "core/error.h"
#include "device/tensor.h"
#include "ops/gradient.h"

namespace ddp::reference {

inline float* at(const Tensor& t, int64_t n, int64_t h, int64_t w, int64_t c) {
  const ImageShape& s = t.shape.image;
  return t.f32() + ((n * s.h + h) * s.w + w) * s.c + c;
}

inline void expect_dense(const Tensor& t) { DDP_EXPECT(t.format == Format{} && t.dtype == DType::f32); }

inline void store(float* to, double value, Gradient mode) {
  *to = static_cast<float>(value + (mode == Gradient::add ? *to : 0.0f));
}

// Calls f(p, q, h, w) for each position (p, q) of the window at (i, j) that lies in the image, at (h, w).
template <class Window, class F>
void each_tap(const ImageShape& image, const Window& window, int64_t i, int64_t j, F&& f) {
  for (int64_t p = 0; p < window.kernel; ++p)
    for (int64_t q = 0; q < window.kernel; ++q) {
      const int64_t h = i * window.stride + p * window.dilation - window.padding.top,
                    w = j * window.stride + q * window.dilation - window.padding.left;
      if (h >= 0 && h < image.h && w >= 0 && w < image.w) f(p, q, h, w);
    }
}

}  // namespace ddp::reference
