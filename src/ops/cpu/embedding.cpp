#include "core/error.h"
#include "ops/cpu/activation.h"
#include "ops/cpu/cpu_ops.h"
#include "ops/cpu/layout.h"
#include "ops/functors.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace ddp {
namespace {

void expect_positions(const DeviceBatch& batch, const Tensor& y) {
  DDP_EXPECT(y.format == Format{} && batch.sequence_length > 0 && y.shape.n == batch.size);
  DDP_EXPECT(y.shape.image.h == batch.sequence_length && y.shape.image.w == 1);
}

}  // namespace

void CpuOps::embedding(const DeviceBatch& batch, const float* table, const Tensor& y) {
  expect_positions(batch, y);
  const int64_t channels = y.shape.image.c, positions = y.shape.elements() / channels;
  const BatchTokens tokens = tokens_of(batch);
  constexpr int64_t kPiece = 16;  // positions
  workers_.each(ceil_div(positions, kPiece), [&](int64_t piece) {
    for (int64_t p = piece * kPiece; p < std::min(positions, (piece + 1) * kPiece); ++p) {
      const float* const row = table + tokens.input(p) * channels;
      if (y.dtype == DType::bf16)
        workers_.kernels.flat.to_bf16(row, element(y, p * channels), channels);
      else
        std::copy_n(row, channels, y.f32() + p * channels);
    }
  });
}

// Each item sums its own channels over all positions, so the order of the additions does not depend on the threads.
void CpuOps::embedding_backward(const DeviceBatch& batch, const Tensor& dy, int64_t rows, float* dtable,
                                Gradient mode) {
  expect_positions(batch, dy);
  const int64_t channels = dy.shape.image.c, positions = dy.shape.elements() / channels;
  if (mode == Gradient::overwrite)
    workers_.spans(rows * channels, [&](int64_t first, int64_t end) {
      std::memset(dtable + first, 0, static_cast<size_t>(end - first) * sizeof(float));
    });
  const BatchTokens tokens = tokens_of(batch);
  constexpr int64_t kPiece = 128;  // channels
  workers_.each(ceil_div(channels, kPiece), [&](int64_t piece) {
    const int64_t first = piece * kPiece, count = std::min(channels - first, kPiece);
    std::array<float, kPiece> wide;
    for (int64_t p = 0; p < positions; ++p) {
      const void* from = element(dy, p * channels + first);
      if (dy.dtype == DType::bf16) {
        workers_.kernels.flat.from_bf16(from, wide.data(), count);
        from = wide.data();
      }
      workers_.kernels.flat.add(static_cast<const float*>(from), dtable + tokens.input(p) * channels + first, count);
    }
  });
}

}  // namespace ddp
