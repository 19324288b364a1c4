#include "ops/cpu/layout.h"

#include "core/bf16.h"
#include "core/error.h"
#include "ops/cpu/cpu_ops.h"

#include <algorithm>
#include <type_traits>

namespace ddp {
namespace {

float as_float(float value) { return value; }
float as_float(uint16_t bits) { return float_of_bf16(bits); }

template <class To, class From>
To convert(From value) {
  if constexpr (std::is_same_v<To, From>)
    return value;
  else if constexpr (std::is_same_v<To, uint16_t>)
    return bf16_of_float(as_float(value));
  else
    return as_float(value);
}

template <class From, class To>
void convert_all(const Workers& workers, const From* from, To* to, int64_t count) {
  workers.spans(count, [&](int64_t first, int64_t end) {
    for (int64_t i = first; i < end; ++i) to[i] = convert<To>(from[i]);
  });
}

template <class From, class To>
void reorder_strided(const Workers& workers, const Tensor& from, const Tensor& to) {
  const int64_t pixels = from.shape.image.h * from.shape.image.w, channels = from.shape.image.c;
  const From* const source = static_cast<const From*>(from.data);
  To* const target = static_cast<To*>(to.data);
  if (to.stored() != to.shape.elements()) std::fill_n(target, to.stored(), To{});
  workers.each(from.shape.n, [&](int64_t n) {
    const SampleLayout a = layout_of(from, n), b = layout_of(to, n);
    const int64_t block = std::min(a.block, b.block);
    for (int64_t c = 0; c < channels; c += block) {
      const int64_t count = std::min(block, channels - c);
      const From* x = source + a.at(c);
      To* y = target + b.at(c);
      for (int64_t p = 0; p < pixels; ++p, x += a.pixel_step, y += b.pixel_step)
        if (a.channel_step == 1 && b.channel_step == 1)
          for (int64_t k = 0; k < count; ++k) y[k] = convert<To>(x[k]);
        else
          for (int64_t k = 0; k < count; ++k) y[k * b.channel_step] = convert<To>(x[k * a.channel_step]);
    }
  });
}

// From dense [n][features] to batch-interleaved, and back with dense rows `stride` apart. Lanes past n become 0.
template <class From, class To>
void to_lanes(const Workers& workers, const From* dense, int64_t n, int64_t features, int lanes, To* to) {
  workers.each(ceil_div(n, lanes), [&](int64_t b) {
    To* block = to + b * features * lanes;
    const int64_t filled = std::min<int64_t>(lanes, n - b * lanes);
    if (filled < lanes) std::fill_n(block, features * lanes, To{});
    for (int64_t f0 = 0; f0 < features; f0 += 16)
      for (int64_t l = 0; l < filled; ++l)
        for (int64_t f = f0; f < std::min(features, f0 + 16); ++f)
          block[f * lanes + l] = convert<To>(dense[(b * lanes + l) * features + f]);
  });
}

template <class From, class To>
void from_lanes(const Workers& workers, const From* in_lanes, int64_t n, int64_t features, int lanes, To* dense,
                int64_t stride) {
  workers.each(ceil_div(n, lanes), [&](int64_t b) {
    const From* block = in_lanes + b * features * lanes;
    const int64_t filled = std::min<int64_t>(lanes, n - b * lanes);
    for (int64_t f0 = 0; f0 < features; f0 += 16)
      for (int64_t l = 0; l < filled; ++l)
        for (int64_t f = f0; f < std::min(features, f0 + 16); ++f)
          dense[(b * lanes + l) * stride + f] = convert<To>(block[f * lanes + l]);
  });
}

template <class From, class To>
void reorder_typed(const Workers& workers, const Tensor& from, const Tensor& to) {
  using Kind = Format::Kind;
  const From* const source = static_cast<const From*>(from.data);
  To* const target = static_cast<To*>(to.data);
  const int64_t n = from.shape.n, features = from.shape.image.elements();
  if (from.format == to.format)
    convert_all(workers, source, target, from.stored());
  else if (is_dense(from) && to.format.kind == Kind::batch_interleaved)
    to_lanes(workers, source, n, features, to.format.block, target);
  else if (from.format.kind == Kind::batch_interleaved && is_dense(to))
    from_lanes(workers, source, n, features, from.format.block, target, features);
  else
    reorder_strided<From, To>(workers, from, to);
}

}  // namespace

SampleLayout layout_of(const Tensor& t, int64_t n) {
  const int64_t pixels = t.shape.image.h * t.shape.image.w, channels = t.shape.image.c, block = t.format.block;
  switch (t.format.kind) {
    case Format::Kind::batch_interleaved:
      return {n / block * block * pixels * channels + n % block, channels * block, block, channels, 0};
    case Format::Kind::blocked_channels:
      return {n * pixels * ceil_div(channels, block) * block, block, 1, block, pixels * block};
    case Format::Kind::dense: break;
  }
  return {n * pixels * channels, channels, 1, channels, 0};
}

bool is_dense(const Tensor& t) {
  const auto& [h, w, c] = t.shape.image;
  return t.format.kind == Format::Kind::dense ||
         (t.format.kind == Format::Kind::blocked_channels && h * w == 1 && c % t.format.block == 0);
}

int choose_lanes(const Workers& workers, std::span<const int64_t> batch_sizes) {
  if (batch_sizes.empty() || workers.kernels.widest_lanes == 8) return 8;
  const int64_t n = *std::max_element(batch_sizes.begin(), batch_sizes.end());
  return 10 * 16 * ceil_div(n, 16) <= 11 * 8 * ceil_div(n, 8) ? 16 : 8;
}

void reorder(const Workers& workers, const Tensor& from, const Tensor& to) {
  DDP_EXPECT(from.shape == to.shape);
  const bool from_bf16 = from.dtype == DType::bf16, to_bf16 = to.dtype == DType::bf16;
  if (from_bf16)
    to_bf16 ? reorder_typed<uint16_t, uint16_t>(workers, from, to) : reorder_typed<uint16_t, float>(workers, from, to);
  else
    to_bf16 ? reorder_typed<float, uint16_t>(workers, from, to) : reorder_typed<float, float>(workers, from, to);
}

void CpuOps::reorder(const Tensor& from, const Tensor& to) { ddp::reorder(workers_, from, to); }

void to_dense(const Workers& workers, const float* in_lanes, int64_t n, int64_t features, int lanes, float* dense,
              int64_t stride) {
  from_lanes(workers, in_lanes, n, features, lanes, dense, stride);
}

}  // namespace ddp
