#include "ops/cpu/elementwise.h"

#include "core/error.h"
#include "ops/augmented_image.h"
#include "ops/cpu/activation.h"
#include "ops/cpu/cpu_ops.h"
#include "ops/cpu/layout.h"
#include "ops/functors.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstring>
#include <memory>
#include <span>
#include <type_traits>
#include <vector>

namespace ddp {
namespace {

void expect_alike(const Tensor& a, const Tensor& b) {
  DDP_EXPECT(a.shape.n == b.shape.n && a.stored() == b.stored() && a.format == b.format && a.dtype == b.dtype);
}

// What normalize() reads. T is the type of x.
template <class T>
struct Input {
  Input(const DeviceBatch& from, const ImageShape& shape, const PixelScale& scale, const Augmentation& changes)
      : batch(from), image(shape), augmentation(changes), epoch(changes.epoch ? *changes.epoch : 0) {
    for (int64_t c = 0; c < std::min<int64_t>(image.c, 3); ++c)
      for (int pixel = 0; pixel < 256; ++pixel) set(table[c][pixel], Normalize(scale, c)(static_cast<uint8_t>(pixel)));
  }

  const uint8_t* pixels(int64_t n) const { return batch.samples + batch.id(n) * image.elements(); }
  const T* values(int64_t c) const { return table[std::min<int64_t>(c, 2)]; }  // by pixel
  AugmentedImage augmented(int64_t n) const {
    return {augmentation, epoch, augmentation.any() ? batch.keys[n] : 0, image.h, image.w};
  }

  const DeviceBatch& batch;
  const ImageShape& image;
  const Augmentation& augmentation;
  const uint32_t epoch;
  T table[3][256];  // of each channel; one entry for each value of a pixel
};

// to[k * stride] = values[from[k * step]] for k in [0, count).
template <class T>
void look_up(const T* __restrict values, const uint8_t* __restrict from, int64_t step, T* __restrict to, int64_t stride,
             int64_t count) {
#pragma GCC unroll 4
  for (int64_t k = 0; k < count; ++k) to[k * stride] = values[from[k * step]];
}

// Writes channels [first, end) of `width` pixels of row i of sample n: channel c of pixel j to
// to[j * pixel_stride + (c - first) * channel_stride].
template <class T>
void normalize_row(const Input<T>& input, int64_t n, const AugmentedImage& augmented, int64_t i, int64_t width,
                   Interval channels, T* to, int64_t pixel_stride, int64_t channel_stride) {
  const int64_t all = input.image.c, row = augmented.row(i);
  const uint8_t* const pixels = input.pixels(n) + (row < 0 ? 0 : row) * input.image.w * all;
  const Interval inside =
      row < 0 ? Interval{width, width} : Interval{augmented.first_inside(width), augmented.end_inside(width)};
  const ErasedBox& box = augmented.erased();
  const Interval erased = box.has_row(i) ? Interval{box.left, std::min(box.right, width)} : Interval{0, 0};
  for (int64_t c = channels.first; c < channels.end; ++c, to += channel_stride) {
    const T* const values = input.values(c);
    const auto write_padding = [&](int64_t first, int64_t end) {
      for (int64_t j = first; j < end; ++j) {
        const int64_t column = row < 0 ? -1 : augmented.column(j);
        to[j * pixel_stride] = values[column < 0 ? 0 : pixels[column * all + c]];
      }
    };
    write_padding(0, inside.first);
    if (inside.size() > 0)
      look_up(values, pixels + augmented.column(inside.first) * all + c, augmented.step() * all,
              to + inside.first * pixel_stride, pixel_stride, inside.size());
    write_padding(std::max(inside.first, inside.end), width);
    for (int64_t j = erased.first; j < erased.end; ++j) to[j * pixel_stride] = T{};
  }
}

// For batch-interleaved x, and for dense x, which has blocks of one sample. `uniform`: all channels have one scale.
template <class T>
void normalize_rows(const Workers& workers, const Input<T>& input, bool uniform, const Tensor& x, T* out) {
  const ImageShape& image = input.image;
  const int64_t n = x.shape.n, lanes = x.format.block, rows = x.shape.image.h;
  const int64_t row = x.shape.image.w * image.c, image_row = image.w * image.c;
  const bool plain = uniform && !input.augmentation.any();
  workers.each(ceil_div(n, lanes), [&](int64_t b) {
    T* to = out + b * rows * row * lanes;
    const int64_t filled = std::min(lanes, n - b * lanes);
    if (filled < lanes) std::fill_n(to, rows * row * lanes, T{});
    if (plain) {
      const T* const values = input.values(0);
      for (int64_t i = 0; i < rows; ++i, to += row * lanes)
        for (int64_t l = 0; l < filled; ++l) {
          const uint8_t* from = input.pixels(b * lanes + l) + i * image_row;
          look_up(values, from, 1, to + l, lanes, row);
        }
      return;
    }
    for (int64_t l = 0; l < filled; ++l) {
      const AugmentedImage augmented = input.augmented(b * lanes + l);
      for (int64_t i = 0; i < rows; ++i)
        normalize_row(input, b * lanes + l, augmented, i, x.shape.image.w, {0, image.c}, to + i * row * lanes + l,
                      image.c * lanes, lanes);
    }
  });
}

template <class T>
void normalize_blocks(const Workers& workers, const Input<T>& input, const Tensor& x, T* out) {
  const auto& [h, w, channels] = x.shape.image;
  const int64_t block = x.format.block, blocks = ceil_div(channels, block);
  workers.each(x.shape.n * blocks, [&](int64_t item) {
    const int64_t n = item / blocks, first = item % blocks * block, filled = std::min(block, channels - first);
    const AugmentedImage augmented = input.augmented(n);
    T* to = out + item * h * w * block;
    if (filled < block) std::fill_n(to, h * w * block, T{});
    for (int64_t i = 0; i < h; ++i, to += w * block)
      normalize_row(input, n, augmented, i, w, {first, first + filled}, to, block, 1);
  });
}

// Adds sum_of(first, length) over pieces of 0..count-1. The split into at most kItems pieces depends on the count only,
// and their sums are added in order.
template <class SumOf>
double add_pieces(const Workers& workers, int64_t count, const SumOf& sum_of) {
  constexpr int64_t kItems = 1024, kLeast = 16384;
  const int64_t piece = std::max(kLeast, ceil_div(count, kItems)), items = ceil_div(count, piece);
  std::array<double, kItems> partial;
  workers.each(items, [&](int64_t item) {
    partial[static_cast<size_t>(item)] = sum_of(item * piece, std::min(piece, count - item * piece));
  });
  double total = 0;
  for (int64_t item = 0; item < items; ++item) total += partial[static_cast<size_t>(item)];
  return total;
}

class CpuGradientScan final : public GradientScan {
 public:
  CpuGradientScan(const Workers& workers, std::span<const ScannedTensor> tensors)
      : workers_(workers), tensors_(tensors.begin(), tensors.end()) {}

  void run(const ScannedPart& part, float* flag, float* squares, Gradient squares_mode) override {
    DDP_EXPECT(!part.bf16);
    const int64_t end = part.begin + part.count;
    auto tensor = std::ranges::lower_bound(tensors_, part.begin, {}, &ScannedTensor::offset);
    DDP_EXPECT(tensor != tensors_.end() && tensor->offset == part.begin);
    double sum = squares_mode == Gradient::add ? static_cast<double>(*squares) : 0.0;
    for (int64_t at = part.begin; at < end;) {  // the tensors of a mark at a time
      const float mark = tensor->mark;
      while (tensor != tensors_.end() && tensor->offset < end && tensor->mark == mark) ++tensor;
      const int64_t next = tensor == tensors_.end() ? end : std::min(tensor->offset, end);
      sum += scan(part.gradients + at, next - at, mark, flag);
      at = next;
    }
    *squares = static_cast<float>(sum);
  }

 private:
  // Returns the sum of the squares. A piece stays in the cache.
  double scan(const float* values, int64_t count, float mark, float* flag) const {
    const FlatKernels& kernels = workers_.kernels.flat;
    std::atomic<bool> found = false;
    const double sum = add_pieces(workers_, count, [&](int64_t first, int64_t length) {
      const double squares = kernels.sum_of_squares(values + first, length);
      if (!std::isfinite(squares) && kernels.any_nonfinite(values + first, length))  // else they are only large
        found.store(true, std::memory_order_relaxed);
      return squares;
    });
    if (found && *flag == 0) *flag = mark;
    return sum;
  }

  Workers workers_;
  std::vector<ScannedTensor> tensors_;
};

}  // namespace

void CpuOps::normalize(const DeviceBatch& batch, const ImageShape& image, const PixelScale& scale,
                       const Augmentation& augmentation, const Tensor& x) {
  DDP_EXPECT(x.shape.image.h <= image.h && x.shape.image.w <= image.w && x.shape.image.c == image.c);
  DDP_EXPECT(augmentation.fits(image) && (batch.keys || !augmentation.any()));
  DDP_EXPECT(image.c <= 3 || scale.uniform(image.c));
  if (batch.mix) return normalize_mixed(workers_, batch, image, scale, augmentation, x);
  with_values(x, [&](auto* out) {
    const Input<std::remove_pointer_t<decltype(out)>> input(batch, image, scale, augmentation);
    if (x.format.kind == Format::Kind::blocked_channels)
      normalize_blocks(workers_, input, x, out);
    else
      normalize_rows(workers_, input, scale.uniform(image.c), x, out);
  });
}

void relu(const Workers& workers, const Tensor& x, const Tensor& y) {
  expect_alike(x, y);
  const ElementwiseKernels& kernels = workers.kernels.activations(x.dtype).elementwise;
  workers.spans(x.stored(),
                [&](int64_t first, int64_t end) { kernels.relu(element(x, first), element(y, first), end - first); });
}

void CpuOps::relu(const Tensor& x, const Tensor& y) { ddp::relu(workers_, x, y); }

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
  std::atomic<bool> found = false;
  workers_.spans(count, [&](int64_t first, int64_t end) {
    if (workers_.kernels.flat.any_nonfinite(values + first, end - first)) found.store(true, std::memory_order_relaxed);
  });
  if (found && *flag == 0) *flag = mark;
}

std::unique_ptr<GradientScan> CpuOps::gradient_scan(std::span<const ScannedTensor> tensors) {
  return std::make_unique<CpuGradientScan>(workers_, tensors);
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

void CpuOps::lerp(const float* from, float* to, int64_t count, float rate, std::span<const float> skip) {
  if (std::ranges::any_of(skip, [](float value) { return value != 0; })) return;
  const Lerp lerp{rate};
  workers_.spans(count, [&](int64_t first, int64_t end) {
    for (int64_t i = first; i < end; ++i) to[i] = lerp(to[i], from[i]);
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

void CpuOps::sum_of_squares(const float* values, int64_t count, float* sum, Gradient mode) {
  const FlatKernels& kernels = workers_.kernels.flat;
  const double squares = add_pieces(
      workers_, count, [&](int64_t first, int64_t length) { return kernels.sum_of_squares(values + first, length); });
  *sum = static_cast<float>((mode == Gradient::add ? static_cast<double>(*sum) : 0.0) + squares);
}

void CpuOps::clip_scale(const float* sum, float limit, float* scale) { *scale = ClipScale{limit}(*sum, *scale); }

void CpuOps::correct_for_excluded(const float* seen, float mark, float* scale, float* flag) {
  *scale = SeenScale{}(*scale, *seen);
  if (*seen == 0 && *flag == 0) *flag = mark;
}

}  // namespace ddp
