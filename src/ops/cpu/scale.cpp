#include "core/error.h"
#include "ops/cpu/activation.h"
#include "ops/cpu/cpu_ops.h"
#include "ops/cpu/elementwise.h"
#include "ops/cpu/layout.h"

#include <algorithm>
#include <array>

namespace ddp {
namespace {

constexpr int64_t kChunk = 1024;  // columns; a multiple of all blocks

// Values of the columns of a chunk.
using ChunkValues = std::array<float, kChunk>;

// An activation of any format as [samples][parts][rows][width]: the parts are blocks of channels. A "sample" may be a
// block of samples.
struct ScaleView {
  explicit ScaleView(const Tensor& t) : rows(t.shape.image.h * t.shape.image.w), block(t.format.block) {
    const int64_t c = t.shape.image.c;
    samples = t.shape.n;
    width = c;
    if (t.format.kind == Format::Kind::batch_interleaved) {
      samples = ceil_div(t.shape.n, block);
      width = c * block;
      lanes = block;
    } else if (t.format.kind == Format::Kind::blocked_channels) {
      parts = ceil_div(c, block);
      width = block;
    }
    stride = width;
    chunks = ceil_div(width, kChunk);
  }

  // Of chunk `item % (parts * chunks)`, whose columns belong to the channels from first_channel() on, `lanes` for each.
  int64_t part(int64_t item) const { return item / chunks % parts; }
  int64_t column(int64_t item) const { return item % chunks * kChunk; }
  int64_t columns(int64_t item) const { return std::min(kChunk, width - column(item)); }
  int64_t first_channel(int64_t item) const { return part(item) * block + column(item) / lanes; }

  // Calls run(offset of the first element, rows) for each contiguous run of a chunk's rows in samples [first, end).
  // Rows lie `stride` elements apart.
  template <class F>
  void each_run(int64_t first, int64_t end, int64_t item, F&& run) const {
    const int64_t at_once = parts == 1 ? end - first : 1;  // samples
    for (int64_t i = first; i < end; i += at_once)
      run((i * parts + part(item)) * rows * stride + column(item), at_once * rows);
  }

  int64_t samples, parts = 1, rows, width, stride, lanes = 1, block, chunks;
};

// The values of the channels of a chunk, for each of its columns; channels past `channels` have 0.
void spread(const ScaleView& view, int64_t item, const float* values, int64_t channels, float without,
            ChunkValues& to) {
  const int64_t first = view.first_channel(item);
  for (int64_t k = 0; k < view.columns(item); ++k) {
    const int64_t c = first + k / view.lanes;
    to[static_cast<size_t>(k)] = c >= channels ? 0.0f : values ? values[c] : without;
  }
}

void expect_same(const Tensor& a, const Tensor& b) {
  DDP_EXPECT(a.shape == b.shape && a.format == b.format && a.dtype == b.dtype);
}

void expect_gate(const Tensor& x, const Tensor& s) {
  DDP_EXPECT(s.shape == (Shape{x.shape.n, {1, 1, x.shape.image.c}}) && s.format == x.format && s.dtype == x.dtype);
}

// What scale_channels_backward(), sum_channels() and sum_all_channels() compute for `count` channels from `first` on;
// these are all of them unless the format is dense. Pieces of samples have partial sums, which are added in order.
void scale_gradients(const Workers& workers, const Tensor& x, const float* scale, const Tensor& dy, const Tensor& dx,
                     int64_t first, int64_t count, float* sums, Gradient mode) {
  constexpr int64_t kPartials = 16384, kMostPieces = 32;
  const ScaleKernels& kernels = workers.kernels.activations(dy.dtype).scale;
  ScaleView view(dy);
  if (dy.format.kind == Format::Kind::dense) {
    view.width = count;
    view.chunks = ceil_div(count, kChunk);
  }
  const int64_t per_sample = view.parts * view.chunks;
  const int64_t pieces = std::clamp<int64_t>(kPartials / count, 1, std::min(kMostPieces, view.samples));
  std::array<float, kPartials> partials;
  workers.each(pieces * per_sample, [&](int64_t item) {
    const int64_t piece = item / per_sample, chunk = item % per_sample;
    const int64_t sample = piece * view.samples / pieces, end = (piece + 1) * view.samples / pieces;
    ChunkValues factor, sum{};
    if (dx.data) spread(view, chunk, scale, count, 1, factor);
    view.each_run(sample, end, chunk, [&](int64_t at, int64_t rows) {
      kernels.backward({.x = x.data ? element(x, at) : nullptr,
                        .dy = element(dy, first + at),
                        .dx = dx.data ? element(dx, at) : nullptr,
                        .rows = rows,
                        .stride = view.stride,
                        .width = view.columns(chunk),
                        .factor = factor.data(),
                        .sums = sums ? sum.data() : nullptr});
    });
    if (!sums) return;
    float* const to = pieces > 1 ? partials.data() + piece * count : sums;
    const bool adds = pieces == 1 && mode == Gradient::add;
    const int64_t c = view.first_channel(chunk);
    for (int64_t k = 0; k < view.columns(chunk) / view.lanes && c + k < count; ++k) {
      double total = 0;
      for (int64_t l = 0; l < view.lanes; ++l)
        total += static_cast<double>(sum[static_cast<size_t>(k * view.lanes + l)]);
      to[c + k] = static_cast<float>((adds ? static_cast<double>(to[c + k]) : 0.0) + total);
    }
  });
  for (int64_t c = 0; sums && pieces > 1 && c < count; ++c) {
    double total = mode == Gradient::add ? static_cast<double>(sums[c]) : 0.0;
    for (int64_t piece = 0; piece < pieces; ++piece)
      total += static_cast<double>(partials[static_cast<size_t>(piece * count + c)]);
    sums[c] = static_cast<float>(total);
  }
}

// The values of a gate for the columns of a chunk, from the element `at` on.
ChunkValues gate_values(const Tensor& s, int64_t at, int64_t columns) {
  ChunkValues factor;
  with_values(s, [&](const auto* values) {
    for (int64_t k = 0; k < columns; ++k) factor[static_cast<size_t>(k)] = get(values[at + k]);
  });
  return factor;
}

}  // namespace

void CpuOps::gate(const Tensor& x, const Tensor& s, const Tensor& y) {
  expect_same(x, y);
  expect_gate(x, s);
  const ScaleKernels& kernels = workers_.kernels.activations(x.dtype).scale;
  const ScaleView view(x);
  workers_.each(view.samples * view.parts * view.chunks, [&](int64_t item) {
    const int64_t plane = item / view.chunks, at = plane * view.rows * view.width + view.column(item);
    const ChunkValues factor = gate_values(s, plane * view.width + view.column(item), view.columns(item)), shift{};
    kernels.forward({.x = element(x, at),
                     .y = element(y, at),
                     .rows = view.rows,
                     .stride = view.width,
                     .width = view.columns(item),
                     .factor = factor.data(),
                     .shift = shift.data()});
  });
}

void CpuOps::gate_backward(const Tensor& x, const Tensor& s, const Tensor& dy, const Tensor& dx, const Tensor& ds) {
  expect_same(x, dy);
  expect_gate(x, s);
  if (dx.data) expect_same(x, dx);
  if (ds.data) expect_same(s, ds);
  const ScaleKernels& kernels = workers_.kernels.activations(x.dtype).scale;
  const ScaleView view(x);
  workers_.each(view.samples * view.parts * view.chunks, [&](int64_t item) {
    const int64_t plane = item / view.chunks, at = plane * view.rows * view.width + view.column(item);
    const int64_t at_gate = plane * view.width + view.column(item);
    const ChunkValues factor = gate_values(s, at_gate, view.columns(item));
    ChunkValues sum{};
    kernels.backward({.x = element(x, at),
                      .dy = element(dy, at),
                      .dx = dx.data ? element(dx, at) : nullptr,
                      .rows = view.rows,
                      .stride = view.width,
                      .width = view.columns(item),
                      .factor = factor.data(),
                      .sums = ds.data ? sum.data() : nullptr});
    if (!ds.data) return;
    with_values(ds, [&](auto* values) {
      for (int64_t k = 0; k < view.columns(item); ++k) set(values[at_gate + k], sum[static_cast<size_t>(k)]);
    });
  });
}

void CpuOps::scale_channels(const Tensor& x, const float* scale, const float* shift, const Tensor& y) {
  expect_same(x, y);
  const ScaleKernels& kernels = workers_.kernels.activations(x.dtype).scale;
  const ScaleView view(x);
  const int64_t per_sample = view.parts * view.chunks, channels = x.shape.image.c;
  const int64_t piece = std::max<int64_t>(1, 128 / view.rows);  // samples of an item
  workers_.each(ceil_div(view.samples, piece) * per_sample, [&](int64_t item) {
    const int64_t chunk = item % per_sample, first = item / per_sample * piece;
    ChunkValues factor, offset;
    spread(view, chunk, scale, channels, 1, factor);
    spread(view, chunk, shift, channels, 0, offset);
    view.each_run(first, std::min(view.samples, first + piece), chunk, [&](int64_t at, int64_t rows) {
      kernels.forward({.x = element(x, at),
                       .y = element(y, at),
                       .rows = rows,
                       .stride = view.stride,
                       .width = view.columns(chunk),
                       .factor = factor.data(),
                       .shift = offset.data()});
    });
  });
}

void CpuOps::scale_channels_backward(const Tensor& x, const float* scale, const Tensor& dy, const Tensor& dx,
                                     float* dscale, Gradient mode) {
  if (dscale) expect_same(x, dy);
  if (dx.data) expect_same(dx, dy);
  scale_gradients(workers_, x, scale, dy, dx, 0, dy.shape.image.c, dscale, mode);
}

void sum_all_channels(const Workers& workers, const Tensor& dy, float* sums, Gradient mode) {
  scale_gradients(workers, {}, nullptr, dy, {}, 0, dy.shape.image.c, sums, mode);
}

void CpuOps::sum_channels(const Tensor& dy, int64_t first, int64_t count, float* sums, Gradient mode) {
  DDP_EXPECT(dy.format == Format{} && first >= 0 && first + count <= dy.shape.image.c);
  if (count == 0) return;
  scale_gradients(workers_, {}, nullptr, dy, {}, first, count, sums, mode);
}

}  // namespace ddp
