// Sums over threads, in a fixed order.
#pragma once

#include <cuda_runtime.h>

namespace ddp {

constexpr int kWarp = 32;

// Returns to each thread the sum over its group of `lanes` adjacent threads. `lanes` is a power of two, at most a warp.
// All threads of the warp must call it.
template <class T>
__device__ T sum_over_lanes(T value, int lanes) {
  for (int offset = lanes / 2; offset > 0; offset /= 2) value += __shfl_xor_sync(0xffffffffu, value, offset);
  return value;
}

template <int M>
struct Sums {
  float at[M];
};

// Returns the sums over the block to thread 0, and zeros to the other threads. The block has full warps, and all
// threads must call it. A barrier lies between two calls.
template <int M>
__device__ Sums<M> sum_over_block(const Sums<M>& mine) {
  __shared__ float warp_sums[M][kWarp];
  const int thread = threadIdx.x;
  for (int m = 0; m < M; ++m) {
    const float warp_sum = sum_over_lanes(mine.at[m], kWarp);
    if (thread % kWarp == 0) warp_sums[m][thread / kWarp] = warp_sum;
  }
  __syncthreads();
  Sums<M> sums{};
  if (thread == 0)
    for (int warp = 0; warp < static_cast<int>(blockDim.x) / kWarp; ++warp)
      for (int m = 0; m < M; ++m) sums.at[m] += warp_sums[m][warp];
  return sums;
}

// Whether the block is the last one of `blocks` that calls this with the same counter, for each of its threads. It may
// then read with __ldcg what all of them have stored with __stcg. All threads must call it. Call it once in a kernel.
// The counter is 0 before the kernel and after it.
__device__ inline bool last_block(unsigned* counter, unsigned blocks) {
  __shared__ bool last;
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) {
    last = atomicInc(counter, blocks - 1) == blocks - 1;
    __threadfence();
  }
  __syncthreads();
  return last;
}

// Whether any value is not 0. Each warp reads all values, with all its lanes, so a long array (one value per rank) is
// fast. All threads of the warp must call it.
__device__ inline bool any_set(const float* values, int count) {
  float found = 0;
  for (int i = static_cast<int>(threadIdx.x) % kWarp; i < count; i += kWarp) found += values[i] != 0 ? 1.0f : 0.0f;
  return sum_over_lanes(found, kWarp) != 0;
}

}  // namespace ddp
