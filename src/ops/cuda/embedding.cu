#include "core/error.h"
#include "ops/cuda/cuda_ops.h"
#include "ops/cuda/pack.cuh"
#include "ops/functors.h"

namespace ddp {
namespace {

BatchTokens read_tokens(const DeviceBatch& batch, const Tensor& y) {
  DDP_EXPECT(y.format == Format{} && batch.sequence_length > 0 && y.shape.n == batch.size);
  DDP_EXPECT(y.shape.image.h == batch.sequence_length && y.shape.image.w == 1 && y.shape.elements() < INT32_MAX);
  return tokens_of(batch);
}

template <class T>
__global__ void embedding_kernel(BatchTokens tokens, const float* table, uint32_t channels, uint32_t elements, T* y) {
  await_previous_kernel();
  for (uint32_t e = grid_thread(); e < elements; e += grid_threads())
    from_float(table[static_cast<int64_t>(tokens.input(e / channels)) * channels + e % channels], y[e]);
}

__global__ void zero_kernel(float* values, int64_t count) {
  await_previous_kernel();
  for (int64_t i = grid_thread(); i < count; i += grid_threads()) values[i] = 0;
}

// A block has one position. It sums all positions with the same token where its own is the first of them, so no other
// block writes the row.
template <class T>
__global__ void embedding_backward_kernel(BatchTokens tokens, const T* dy, uint32_t channels, uint32_t positions,
                                          float* dtable) {
  await_previous_kernel();
  const uint32_t mine = blockIdx.x;
  const int32_t row = tokens.input(mine);
  bool is_later = false;
  for (uint32_t p = threadIdx.x; p < mine; p += blockDim.x) is_later |= tokens.input(p) == row;
  if (__syncthreads_or(is_later)) return;
  for (uint32_t p = mine; p < positions; ++p) {
    if (tokens.input(p) != row) continue;
    for (uint32_t k = threadIdx.x; k < channels; k += blockDim.x)
      dtable[static_cast<int64_t>(row) * channels + k] += to_float(dy[p * channels + k]);
  }
}

}  // namespace

void CudaOps::embedding(const DeviceBatch& batch, const float* table, const Tensor& y) {
  const BatchTokens tokens = read_tokens(batch, y);
  with_packs(y.dtype, 1, [&]<class T, int>() {
    launch(context_.stream, blocks_over(y.shape.elements()), kThreads, embedding_kernel<T>, tokens, table,
           y.shape.image.c, y.shape.elements(), data<T>(y));
  });
}

void CudaOps::embedding_backward(const DeviceBatch& batch, const Tensor& dy, int64_t rows, float* dtable,
                                 Gradient mode) {
  const BatchTokens tokens = read_tokens(batch, dy);
  const int64_t channels = dy.shape.image.c, positions = dy.shape.elements() / channels;
  if (mode == Gradient::overwrite)
    launch(context_.stream, blocks_over(rows * channels), kThreads, zero_kernel, dtable, rows * channels);
  with_packs(dy.dtype, 1, [&]<class T, int>() {
    launch(context_.stream, positions, kThreads, embedding_backward_kernel<T>, tokens, data<T>(dy), channels, positions,
           dtable);
  });
}

}  // namespace ddp
