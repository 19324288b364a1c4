// Device code for kernels over columns (ops/cuda/columns.h).
#pragma once

#include "ops/cuda/columns.h"
#include "ops/cuda/pack.cuh"

namespace ddp {

// The position of a thread in its block, and of the block in the matrix.
struct ColumnPlace {
  int tile, group, thread_row;
  int column;   // in packs
  bool active;  // whether the thread has a column; spare threads do not

  __device__ explicit ColumnPlace(const ColumnPlan& plan)
      : tile(blockIdx.x % plan.tiles),
        group(blockIdx.x / plan.tiles),
        thread_row(threadIdx.x / plan.width),
        column(tile * plan.width + threadIdx.x % plan.width),
        active(thread_row < plan.thread_rows && column < plan.packs) {}
};

// Calls use(i, load(i)) for the packs of a thread, in the order of rows; a pack starts at element i. U rows are loaded
// before the first is used, so that their loads overlap.
template <int N, int U, class Load, class Use>
__device__ void each_row(const ColumnPlan& plan, const ColumnPlace& place, const Load& load, const Use& use) {
  const int64_t row = static_cast<int64_t>(plan.packs) * N, end = plan.rows * row;
  const int64_t first = static_cast<int64_t>(place.group) * plan.thread_rows + place.thread_row;
  const int64_t stride = static_cast<int64_t>(plan.groups) * plan.thread_rows * row;
  int64_t i = place.active ? first * row + static_cast<int64_t>(place.column) * N : end;
  for (; i + (U - 1) * stride < end; i += U * stride) {
    decltype(load(i)) items[U];
    for (int u = 0; u < U; ++u) items[u] = load(i + u * stride);
    for (int u = 0; u < U; ++u) use(i + u * stride, items[u]);
  }
  for (; i < end; i += stride) use(i, load(i));
}

// Sums M values of each column over the thread rows of a block, as a tree. With one group, the result goes to `out`.
// With several groups, it goes to `partials` [sum][channel][group], for add_partials.
template <int M, int N>
__device__ void sum_columns(const ColumnPlan& plan, const ColumnPlace& place, const Pack<float, N> (&mine)[M],
                            float* partials, const SumsOf<M>& out, bool add) {
  __shared__ float sums[M * N][kThreads];
  const int thread = threadIdx.x, channels = plan.packs * N;
  for (int m = 0; m < M; ++m)
    for (int k = 0; k < N; ++k) sums[m * N + k][thread] = mine[m].at[k];
  for (int rows = plan.thread_rows; rows > 1;) {
    const int half = (rows + 1) / 2;
    __syncthreads();
    if (place.thread_row < rows - half)
      for (int s = 0; s < M * N; ++s) sums[s][thread] += sums[s][thread + half * plan.width];
    rows = half;
  }
  if (!place.active || place.thread_row > 0) return;
  for (int m = 0; m < M; ++m)
    for (int k = 0; k < N; ++k) {
      const int channel = place.column * N + k;
      const float sum = sums[m * N + k][thread];
      if (plan.groups > 1)
        partials[(static_cast<int64_t>(m) * channels + channel) * plan.groups + place.group] = sum;
      else
        out.at[m][channel] = (add ? out.at[m][channel] : 0.0f) + sum;
    }
}

}  // namespace ddp
