#include "ops/cuda/columns.h"
#include "ops/cuda/pack.cuh"
#include "ops/cuda/reduce.cuh"

#include <algorithm>

namespace ddp {
namespace {

template <int M>
__global__ void add_partials_kernel(const float* partials, int groups, int64_t channels, SumsOf<M> out, bool add) {
  const int64_t i = grid_thread() / kWarp;
  const int lane = grid_thread() % kWarp;
  if (i >= M * channels) return;
  float sum = 0;
  for (int group = lane; group < groups; group += kWarp) sum += partials[i * groups + group];
  sum = sum_over_lanes(sum, kWarp);
  float* const to = out.at[i / channels] + i % channels;
  if (lane == 0) *to = (add ? *to : 0.0f) + sum;
}

}  // namespace

ColumnPlan plan_columns(int64_t rows, int64_t packs, int max_width, int64_t few_rows) {
  constexpr int kNarrow = 8;               // packs per tile
  constexpr int64_t kSteps = 4;            // rows per thread, at least, to add a group
  constexpr int64_t kMaxGroups = 4 * 132;  // half of the threads of an H200
  ColumnPlan plan{rows, static_cast<int>(packs), 0, 0, 0, 1};
  const auto steps_of_tiles = [&](int max_tile_width) {
    plan.tiles = (plan.packs + max_tile_width - 1) / max_tile_width;
    plan.width = (plan.packs + plan.tiles - 1) / plan.tiles;
    plan.thread_rows = kThreads / plan.width;
    return (rows + plan.thread_rows - 1) / plan.thread_rows;
  };
  if (steps_of_tiles(std::min(kNarrow, max_width)) <= few_rows) return plan;
  const int64_t steps = steps_of_tiles(max_width);
  plan.groups = static_cast<int>(
      std::clamp<int64_t>((steps + kSteps - 1) / kSteps, 1, std::max<int64_t>(kMaxGroups / plan.tiles, 1)));
  return plan;
}

template <int M>
void add_partials(CudaContext& context, const float* partials, int groups, int64_t channels, const SumsOf<M>& out,
                  Gradient mode) {
  launch(context.stream, blocks_for(M * channels * kWarp, kThreads), kThreads, add_partials_kernel<M>, partials, groups,
         channels, out, mode == Gradient::add);
}

template void add_partials(CudaContext&, const float*, int, int64_t, const SumsOf<1>&, Gradient);
template void add_partials(CudaContext&, const float*, int, int64_t, const SumsOf<2>&, Gradient);

}  // namespace ddp
