#include "core/error.h"
#include "ops/cuda/cuda_ops.h"
#include "ops/cuda/pack.cuh"
#include "ops/cuda/reduce.cuh"
#include "ops/functors.h"

namespace ddp {
namespace {

BatchTokens read_tokens(const DeviceBatch& batch, const Tensor& y) {
  DDP_EXPECT(y.format == Format{} && batch.sequence_length > 0 && y.shape.n == batch.size);
  DDP_EXPECT(y.shape.image.h == batch.sequence_length && y.shape.image.w == 1 && y.shape.elements() < INT32_MAX);
  return tokens_of(batch);
}

// BatchTokens::input() with divisions of 32 bits, which are faster.
__device__ int32_t token_at(const BatchTokens& tokens, uint32_t position) {
  const auto length = static_cast<uint32_t>(tokens.length);
  return tokens.tokens[tokens.id(position / length) * (tokens.length + 1) + position % length];
}

template <class T, int N>
__global__ void embedding_kernel(BatchTokens tokens, const float* table, uint32_t channels, uint32_t elements, T* y) {
  await_previous_kernel();
  for (uint32_t e = grid_thread() * N; e < elements; e += grid_threads() * N)
    store<N>(y + e, load<N>(table + static_cast<int64_t>(token_at(tokens, e / channels)) * channels + e % channels));
}

// A block has one position. It sums all positions with the same token, in their order, where its own is the first of
// them, so no other block writes the row. It seeks an earlier one backwards, because that is near for most tokens. Each
// thread compares the token of one position at a time, and the block shares the answers as bits.
template <class T, int N>
__global__ void __launch_bounds__(kThreads)
    embedding_backward_kernel(BatchTokens tokens, const T* dy, uint32_t channels, uint32_t positions, float* dtable) {
  await_previous_kernel();
  constexpr uint32_t kWarps = kThreads / kWarp;
  __shared__ uint32_t same[kWarps];
  const uint32_t mine = blockIdx.x;
  const int32_t row = token_at(tokens, mine);
  for (uint32_t back = 0; back < mine; back += kThreads) {
    const uint32_t before = back + threadIdx.x;
    if (__syncthreads_or(before < mine && token_at(tokens, mine - 1 - before) == row)) return;
  }
  for (uint32_t first = mine; first < positions; first += kThreads) {
    const uint32_t p = first + threadIdx.x;
    const uint32_t found = __ballot_sync(0xffffffffu, p < positions && token_at(tokens, p) == row);
    if (threadIdx.x % kWarp == 0) same[threadIdx.x / kWarp] = found;
    if (__syncthreads_or(found != 0)) {
      for (uint32_t k = threadIdx.x * N; k < channels; k += kThreads * N) {
        float* const to = dtable + static_cast<int64_t>(row) * channels + k;
        Pack<float, N> sum = load<N>(to);
        for (uint32_t warp = 0; warp < kWarps; ++warp)
          for (uint32_t left = same[warp]; left != 0; left &= left - 1) {
            const uint32_t at = first + warp * kWarp + static_cast<uint32_t>(__ffs(static_cast<int>(left)) - 1);
            const auto values = load<N>(dy + static_cast<int64_t>(at) * channels + k);
            for (int i = 0; i < N; ++i) sum.at[i] += values.at[i];
          }
        store<N>(to, sum);
      }
    }
    __syncthreads();
  }
}

}  // namespace

void CudaOps::embedding(const DeviceBatch& batch, const float* table, const Tensor& y) {
  const BatchTokens tokens = read_tokens(batch, y);
  const int64_t channels = y.shape.image.c, elements = y.shape.elements();
  with_packs(y.dtype, aligned(table, y.data) ? pack_width(y.dtype, channels) : 1, [&]<class T, int N>() {
    launch(context_.stream, blocks_over(elements / N), kThreads, embedding_kernel<T, N>, tokens, table, channels,
           elements, data<T>(y));
  });
}

void CudaOps::embedding_backward(const DeviceBatch& batch, const Tensor& dy, int64_t rows, float* dtable,
                                 Gradient mode) {
  const BatchTokens tokens = read_tokens(batch, dy);
  const int64_t channels = dy.shape.image.c, positions = dy.shape.elements() / channels;
  if (mode == Gradient::overwrite) context_.device.zero(dtable, static_cast<size_t>(rows * channels) * sizeof(float));
  with_packs(dy.dtype, aligned(dtable, dy.data) ? pack_width(dy.dtype, channels) : 1, [&]<class T, int N>() {
    launch(context_.stream, positions, kThreads, embedding_backward_kernel<T, N>, tokens, data<T>(dy), channels,
           positions, dtable);
  });
}

}  // namespace ddp
