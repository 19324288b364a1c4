// Device code for kernels over columns (ops/cuda/columns.h).
#pragma once

#include "ops/cuda/columns.h"
#include "ops/cuda/pack.cuh"
#include "ops/cuda/reduce.cuh"

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

// Adds the sums of all groups of a tile: the threads share the groups, then the first ones add in the order of rows.
// `shared` holds a pack of each thread.
template <int M, int N>
__device__ void add_groups(const ColumnPlan& plan, const ColumnPlace& place, const SumsOf<M>& out, float* shared) {
  constexpr int W = N % 4 == 0 ? 4 : 1;
  static_assert(M * kMaxTileWidth * N / W <= kThreads, "each pack of sums of a tile has a thread");
  using Packed = Pack<float, W>;
  const int channels = plan.packs * N, first = place.tile * plan.width * N;
  const int packs = min(plan.width * N, channels - first) / W, items = M * packs, rows = kThreads / items;
  const int item = static_cast<int>(threadIdx.x) % items, row = static_cast<int>(threadIdx.x) / items;
  const int m = item / packs, channel = first + item % packs * W;
  Packed sum{};
  if (row < rows) {
    const float* const from = out.partials + static_cast<int64_t>(m) * channels + channel;
    constexpr int kAtOnce = 8;  // loads
    for (int group = row; group < plan.groups; group += kAtOnce * rows) {
      Packed parts[kAtOnce] = {};
      for (int u = 0; u < kAtOnce; ++u)
        if (group + u * rows < plan.groups)
          parts[u] = load_shared<W>(from + static_cast<int64_t>(group + u * rows) * M * channels);
      for (const Packed& part : parts)
        for (int k = 0; k < W; ++k) sum.at[k] += part.at[k];
    }
  }
  auto* const packed = reinterpret_cast<Packed*>(shared);
  packed[threadIdx.x] = sum;
  __syncthreads();
  if (row > 0) return;
  for (int r = 1; r < rows; ++r)
    for (int k = 0; k < W; ++k) sum.at[k] += packed[r * items + item].at[k];
  static_assert(M <= 2);
  float* const to = m == 0 ? out.at[0] : out.at[M - 1];
  for (int k = 0; k < W; ++k) to[channel + k] = (out.add ? to[channel + k] : 0.0f) + sum.at[k];
}

// Sums M values of each column over the thread rows of a block, as a tree, and over the groups: the last block of a
// tile adds them. All threads of a block must call it. Call it once, at the end of a kernel.
template <int M, int N>
__device__ void sum_columns(const ColumnPlan& plan, const ColumnPlace& place, const Pack<float, N> (&mine)[M],
                            const SumsOf<M>& out) {
  alignas(16) __shared__ float sums[M * N][kThreads];
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
  if (place.active && place.thread_row == 0)
    for (int m = 0; m < M; ++m) {
      Pack<float, N> sum;
      for (int k = 0; k < N; ++k) sum.at[k] = sums[m * N + k][thread];
      const int channel = place.column * N;
      if (plan.groups > 1)
        store_shared<N>(out.partials + static_cast<int64_t>(place.group * M + m) * channels + channel, sum);
      else
        for (int k = 0; k < N; ++k) out.at[m][channel + k] = (out.add ? out.at[m][channel + k] : 0.0f) + sum.at[k];
    }
  if (plan.groups > 1 && last_block(out.counters + place.tile, plan.groups))
    add_groups<M, N>(plan, place, out, sums[0]);
}

}  // namespace ddp
