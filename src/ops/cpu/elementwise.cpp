#include "ops/cpu/elementwise.h"

#include "core/error.h"
#include "ops/cpu/activation.h"
#include "ops/cpu/cpu_ops.h"
#include "ops/cpu/layout.h"
#include "ops/functors.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>

namespace ddp {
namespace {

void expect_alike(const Tensor& a, const Tensor& b) {
  DDP_EXPECT(a.shape.n == b.shape.n && a.stored() == b.stored() && a.format == b.format && a.dtype == b.dtype);
}

// For batch-interleaved x, and for dense x, which has blocks of one sample.
template <class T>
void normalize_rows(const Workers& workers, const DeviceBatch& batch, const ImageShape& image, const Tensor& x,
                    T* out) {
  const int64_t n = x.shape.n, lanes = x.format.block, rows = x.shape.image.h;
  const int64_t row = x.shape.image.w * image.c, image_row = image.w * image.c;
  workers.each(ceil_div(n, lanes), [&](int64_t b) {
    T* to = out + b * rows * row * lanes;
    const int64_t filled = std::min(lanes, n - b * lanes);
    if (filled < lanes) std::fill_n(to, rows * row * lanes, T{});
    for (int64_t i = 0; i < rows; ++i, to += row * lanes)
      for (int64_t l = 0; l < filled; ++l) {
        const uint8_t* from = batch.images + batch.id(b * lanes + l) * image.elements() + i * image_row;
        for (int64_t j = 0; j < row; ++j) set(to[j * lanes + l], Normalize{}(from[j]));
      }
  });
}

template <class T>
void normalize_blocks(const Workers& workers, const DeviceBatch& batch, const ImageShape& image, const Tensor& x,
                      T* out) {
  const auto& [h, w, channels] = x.shape.image;
  const int64_t block = x.format.block, blocks = ceil_div(channels, block);
  workers.each(x.shape.n * blocks, [&](int64_t item) {
    const int64_t first = item % blocks * block, filled = std::min(block, channels - first);
    const uint8_t* from = batch.images + batch.id(item / blocks) * image.elements() + first;
    T* to = out + item * h * w * block;
    for (int64_t i = 0; i < h; ++i)
      for (int64_t j = 0; j < w; ++j, to += block) {
        for (int64_t c = 0; c < filled; ++c) set(to[c], Normalize{}(from[(i * image.w + j) * channels + c]));
        std::fill(to + filled, to + block, T{});
      }
  });
}

}  // namespace

void CpuOps::normalize(const DeviceBatch& batch, const ImageShape& image, const Tensor& x) {
  DDP_EXPECT(x.shape.image.h <= image.h && x.shape.image.w <= image.w && x.shape.image.c == image.c);
  with_values(x, [&](auto* out) {
    if (x.format.kind == Format::Kind::blocked_channels)
      normalize_blocks(workers_, batch, image, x, out);
    else
      normalize_rows(workers_, batch, image, x, out);
  });
}

void CpuOps::relu(const Tensor& x, const Tensor& y) {
  expect_alike(x, y);
  const ElementwiseKernels& kernels = workers_.kernels.activations(x.dtype).elementwise;
  workers_.spans(x.stored(),
                 [&](int64_t first, int64_t end) { kernels.relu(element(x, first), element(y, first), end - first); });
}

void relu_backward(const Workers& workers, const Tensor& y, const Tensor& dy, const Tensor& dx) {
  expect_alike(y, dy);
  expect_alike(y, dx);
  const ElementwiseKernels& kernels = workers.kernels.activations(y.dtype).elementwise;
  workers.spans(y.stored(), [&](int64_t first, int64_t end) {
    kernels.relu_backward(element(y, first), element(dy, first), element(dx, first), end - first);
  });
}

void CpuOps::relu_backward(const Tensor& y, const Tensor& dy, const Tensor& dx) {
  ddp::relu_backward(workers_, y, dy, dx);
}

void CpuOps::add(const Tensor& a, const Tensor& b, const Tensor& y) {
  expect_alike(a, y);
  expect_alike(b, y);
  const ElementwiseKernels& kernels = workers_.kernels.activations(y.dtype).elementwise;
  workers_.spans(y.stored(), [&](int64_t first, int64_t end) {
    kernels.add(element(a, first), element(b, first), element(y, first), end - first);
  });
}

void CpuOps::flag_nonfinite(const float* values, int64_t count, float mark, float* flag) {
  const FlatKernels& kernels = workers_.kernels.flat;
  std::atomic<bool> found = false;
  workers_.spans(count, [&](int64_t first, int64_t end) {
    if (kernels.any_nonfinite(values + first, end - first)) found.store(true, std::memory_order_relaxed);
  });
  if (found && *flag == 0) *flag = mark;
}

void CpuOps::copy_or_add(const float* from, float* to, int64_t count, Gradient mode) {
  const FlatKernels& kernels = workers_.kernels.flat;
  workers_.spans(count, [&](int64_t first, int64_t end) {
    if (mode == Gradient::add)
      kernels.add(from + first, to + first, end - first);
    else
      std::memcpy(to + first, from + first, sizeof(float) * static_cast<size_t>(end - first));
  });
}

void CpuOps::to_bf16(const float* from, void* to, int64_t count) {
  const FlatKernels& kernels = workers_.kernels.flat;
  workers_.spans(count, [&](int64_t first, int64_t end) {
    kernels.to_bf16(from + first, static_cast<uint16_t*>(to) + first, end - first);
  });
}

void CpuOps::from_bf16(const void* from, float* to, int64_t count) {
  const FlatKernels& kernels = workers_.kernels.flat;
  workers_.spans(count, [&](int64_t first, int64_t end) {
    kernels.from_bf16(static_cast<const uint16_t*>(from) + first, to + first, end - first);
  });
}

// The split into at most kItems pieces depends on the count only, and their sums are added in order.
void CpuOps::sum_of_squares(const float* values, int64_t count, float* sum, Gradient mode) {
  constexpr int64_t kItems = 1024, kPiece = 16384;
  const FlatKernels& kernels = workers_.kernels.flat;
  const int64_t piece = std::max(kPiece, ceil_div(count, kItems)), items = ceil_div(count, piece);
  std::array<double, kItems> partial;
  workers_.each(items, [&](int64_t item) {
    partial[static_cast<size_t>(item)] =
        kernels.sum_of_squares(values + item * piece, std::min(piece, count - item * piece));
  });
  double total = mode == Gradient::add ? static_cast<double>(*sum) : 0.0;
  for (int64_t item = 0; item < items; ++item) total += partial[static_cast<size_t>(item)];
  *sum = static_cast<float>(total);
}

void CpuOps::clip_scale(const float* sum, float limit, float* scale) { *scale = ClipScale{limit}(*sum); }

}  // namespace ddp
