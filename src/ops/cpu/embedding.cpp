#include "core/error.h"
#include "ops/cpu/activation.h"
#include "ops/cpu/cpu_ops.h"
#include "ops/functors.h"

#include <algorithm>

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
  with_values(y, [&](auto* to) {
    constexpr int64_t kPiece = 16;  // positions
    workers_.each((positions + kPiece - 1) / kPiece, [&](int64_t piece) {
      for (int64_t p = piece * kPiece; p < std::min(positions, (piece + 1) * kPiece); ++p)
        for (int64_t k = 0; k < channels; ++k) set(to[p * channels + k], table[tokens.input(p) * channels + k]);
    });
  });
}

// Each item sums its own channels over all positions, so the order of the additions does not depend on the threads.
void CpuOps::embedding_backward(const DeviceBatch& batch, const Tensor& dy, int64_t rows, float* dtable,
                                Gradient mode) {
  expect_positions(batch, dy);
  const int64_t channels = dy.shape.image.c, positions = dy.shape.elements() / channels;
  if (mode == Gradient::overwrite)
    workers_.spans(rows * channels, [&](int64_t first, int64_t end) { std::fill(dtable + first, dtable + end, 0.0f); });
  const BatchTokens tokens = tokens_of(batch);
  with_values(dy, [&](auto* from) {
    constexpr int64_t kPiece = 64;  // channels
    workers_.each((channels + kPiece - 1) / kPiece, [&](int64_t piece) {
      const int64_t first = piece * kPiece, end = std::min(channels, first + kPiece);
      for (int64_t p = 0; p < positions; ++p)
        for (int64_t k = first; k < end; ++k) dtable[tokens.input(p) * channels + k] += get(from[p * channels + k]);
    });
  });
}

}  // namespace ddp
