#include "core/error.h"
#include "ops/cpu/activation.h"
#include "ops/cpu/cpu_ops.h"
#include "ops/cpu/layout.h"

#include <algorithm>
#include <cstring>

namespace ddp {
namespace {

// An activation of any format as rows in which the channels have places in order: [rows][channels or blocks][unit].
struct ChannelRows {
  int64_t rows, length;  // length of a row, in elements
  int64_t unit, block;   // elements of `block` channels

  int64_t place(int64_t channel) const { return ceil_div(channel, block) * unit; }  // in a row
};

ChannelRows channel_rows(const Tensor& t) {
  const int64_t positions = t.shape.image.h * t.shape.image.w, c = t.shape.image.c, block = t.format.block;
  switch (t.format.kind) {
    case Format::Kind::batch_interleaved: return {ceil_div(t.shape.n, block) * positions, c * block, block, 1};
    case Format::Kind::blocked_channels:
      return {t.shape.n, ceil_div(c, block) * positions * block, positions * block, block};
    case Format::Kind::dense: break;
  }
  return {t.shape.n * positions, c, 1, 1};
}

// Calls rows(first, end) for pieces of about 64 KiB of f32.
template <class F>
void each_piece(const Workers& workers, int64_t count, int64_t length, F&& rows) {
  const int64_t piece = 16384 / std::clamp<int64_t>(length, 1, 16384);
  workers.each(ceil_div(count, piece), [&](int64_t i) { rows(i * piece, std::min(count, (i + 1) * piece)); });
}

}  // namespace

void CpuOps::copy_channels(const Tensor& from, int64_t first, const Tensor& to, int64_t to_first, int64_t count) {
  const ImageShape a = from.shape.image, b = to.shape.image;
  DDP_EXPECT(from.shape.n == to.shape.n && a.h == b.h && a.w == b.w && from.format == to.format);
  DDP_EXPECT(from.dtype == to.dtype && first >= 0 && to_first >= 0 && first + count <= a.c && to_first + count <= b.c);
  const ChannelRows source = channel_rows(from), target = channel_rows(to);
  const int64_t block = source.block;
  DDP_EXPECT(first % block == 0 && to_first % block == 0);
  DDP_EXPECT(count % block == 0 || (first + count == a.c && to_first + count == b.c));
  const int64_t length = source.place(count);
  const size_t bytes = static_cast<size_t>(length) * size_of(from.dtype);
  each_piece(workers_, source.rows, length, [&](int64_t row, int64_t end) {
    for (; row < end; ++row)
      std::memcpy(element(to, row * target.length + target.place(to_first)),
                  element(from, row * source.length + source.place(first)), bytes);
  });
}

void CpuOps::set_channels(const float* values, const Tensor& y, int64_t first, int64_t count) {
  DDP_EXPECT(y.format == Format{} && first >= 0 && first + count <= y.shape.image.c);
  const int64_t length = y.shape.image.c;
  with_values(y, [&](auto* to) {
    each_piece(workers_, y.shape.elements() / length, count, [&](int64_t row, int64_t end) {
      for (; row < end; ++row)
        for (int64_t k = 0; k < count; ++k) set(to[row * length + first + k], values ? values[k] : 0.0f);
    });
  });
}

}  // namespace ddp
