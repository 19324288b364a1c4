// The sliding square window of convolutions and poolings.
#pragma once

#include "core/shape.h"

#include <cstdint>

namespace ddp {

struct Padding {
  int64_t top = 0, left = 0, bottom = 0, right = 0;

  constexpr Padding() = default;
  constexpr Padding(int64_t all) : top(all), left(all), bottom(all), right(all) {}  // NOLINT: meant to convert
  constexpr Padding(int64_t t, int64_t l, int64_t b, int64_t r) : top(t), left(l), bottom(b), right(r) {}
  constexpr bool none() const { return *this == Padding{}; }
  friend constexpr bool operator==(const Padding&, const Padding&) = default;
};

struct Window2d {
  int64_t kernel = 1, stride = 1;
  Padding padding = {};
  int64_t dilation = 1;  // distance of the window's elements; poolings have 1

  int64_t extent() const { return (kernel - 1) * dilation + 1; }  // positions from the first to the last element
};

inline bool window_fits(const ImageShape& in, const Window2d& w) {
  return in.h + w.padding.top + w.padding.bottom >= w.extent() && in.w + w.padding.left + w.padding.right >= w.extent();
}

// Output shape with whole windows only (floor mode, as in PyTorch): windows may leave rows at the bottom and columns at
// the right uncovered.
inline ImageShape window_output(const ImageShape& in, const Window2d& w, int64_t channels) {
  return {(in.h + w.padding.top + w.padding.bottom - w.extent()) / w.stride + 1,
          (in.w + w.padding.left + w.padding.right - w.extent()) / w.stride + 1, channels};
}

// The padding that gives an output of ceil(extent / stride) positions, as "same" in Keras and TensorFlow. An odd total
// has its larger half at the bottom and the right.
inline Padding same_padding(const ImageShape& in, int64_t kernel, int64_t stride) {
  const auto total = [&](int64_t extent) {
    const int64_t needed = ((extent + stride - 1) / stride - 1) * stride + kernel - extent;
    return needed > 0 ? needed : 0;
  };
  const int64_t h = total(in.h), w = total(in.w);
  return {h / 2, w / 2, h - h / 2, w - w / 2};
}

}  // namespace ddp
