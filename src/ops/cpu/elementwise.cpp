#include "ops/cpu/elementwise.h"

#include "core/error.h"
#include "ops/cpu/layout.h"
#include "ops/functors.h"

#include <algorithm>
#include <atomic>
#include <cstring>

namespace ddp {

void normalize(const Workers& workers, const Samples& samples, const ImageShape& image, const Tensor& x) {
  const int64_t n = x.shape.n, lanes = x.format.block, rows = x.shape.image.h;
  const int64_t row = x.shape.image.w * x.shape.image.c, image_row = image.w * image.c;
  const Normalize to_float;
  DDP_EXPECT(x.format.kind != Format::Kind::channels);
  DDP_EXPECT(rows <= image.h && x.shape.image.w <= image.w && x.shape.image.c == image.c);
  // With dense images a block is one sample: one lane.
  workers.each(ceil_div(n, lanes), [&](int64_t b) {
    float* to = x.f32() + b * rows * row * lanes;
    const int64_t filled = std::min(lanes, n - b * lanes);
    if (filled < lanes) std::fill_n(to, rows * row * lanes, 0.0f);
    for (int64_t i = 0; i < rows; ++i, to += row * lanes)
      for (int64_t l = 0; l < filled; ++l) {
        const uint8_t* from = samples.pixels + samples.id(b * lanes + l) * image.elements() + i * image_row;
        for (int64_t j = 0; j < row; ++j) to[j * lanes + l] = to_float(from[j]);
      }
  });
}

void relu(const Workers& workers, const Tensor& x, const Tensor& y) {
  workers.spans(x.stored(), [&](int64_t first, int64_t end) {
    for (int64_t i = first; i < end; ++i) y.f32()[i] = Relu{}(x.f32()[i]);
  });
}

void relu_backward(const Workers& workers, const Tensor& y, const Tensor& dy, const Tensor& dx) {
  workers.spans(y.stored(), [&](int64_t first, int64_t end) {
    for (int64_t i = first; i < end; ++i) dx.f32()[i] = ReluGradient{}(y.f32()[i], dy.f32()[i]);
  });
}

void add(const Workers& workers, const float* from, float* to, int64_t count) {
  workers.spans(count, [&](int64_t first, int64_t end) {
    for (int64_t i = first; i < end; ++i) to[i] += from[i];
  });
}

void flag_nonfinite(const Workers& workers, const float* values, int64_t count, float mark, float* flag) {
  std::atomic<bool> found = false;
  workers.spans(count, [&](int64_t first, int64_t end) {
    uint32_t any = 0;
    for (int64_t i = first; i < end; ++i) {
      uint32_t bits;
      std::memcpy(&bits, values + i, sizeof bits);
      any |= IsNonfinite{}(bits) ? 1u : 0u;
    }
    if (any) found.store(true, std::memory_order_relaxed);
  });
  if (found && *flag == 0) *flag = mark;
}

void sgd(const Workers& workers, float* w, const float* g, int64_t count, const float* lr,
         std::span<const float> skip) {
  if (std::any_of(skip.begin(), skip.end(), [](float value) { return value != 0; })) return;
  const SgdStep step{*lr};
  workers.spans(count, [&](int64_t first, int64_t end) {
    for (int64_t i = first; i < end; ++i) w[i] = step(w[i], g[i]);
  });
}

}  // namespace ddp
