#include "core/error.h"
#include "ops/cuda/columns.h"
#include "ops/cuda/pack.cuh"

#include <algorithm>

namespace ddp {

ColumnPlan plan_columns(int64_t rows, int64_t packs, int max_width, int64_t few_rows) {
  constexpr int kNarrow = 8;               // packs per tile
  constexpr int64_t kSteps = 4;            // rows per thread, at least, to add a group
  constexpr int64_t kMaxGroups = 2 * 132;  // a quarter of the threads of an H200; one block adds the groups of a tile
  DDP_EXPECT(max_width <= kMaxTileWidth);
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
  DDP_EXPECT(plan.tiles <= CudaContext::kCounters);
  return plan;
}

}  // namespace ddp
