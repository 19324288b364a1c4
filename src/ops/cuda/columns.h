// How kernels share out the columns of a matrix: those of a dense tensor, whose rows are samples x positions and whose
// columns are channels. A block takes `width` neighbouring columns of packs (a tile), with its threads in `lanes` rows,
// and every groups-th set of lanes. All of it follows from the shape alone.
#pragma once

#include "ops/cuda/context.h"
#include "ops/gradient.h"

#include <cstdint>

namespace ddp {

struct ColumnPlan {
  int64_t rows;
  int packs;  // in a row
  int width;
  int thread_rows;
  int tiles;  // blocks side by side, which cover the packs
  int groups;

  int64_t blocks() const { return int64_t{tiles} * groups; }
  // Floats of workspace for `sums` sums of each of `channels` columns.
  int64_t partials(int64_t channels, int sums) const { return groups > 1 ? channels * groups * sums : 0; }
};

// Tiles at most `max_width` packs wide. Where narrow ones have no more than `few_rows` rows for each thread, there is
// one group.
ColumnPlan plan_columns(int64_t rows, int64_t packs, int max_width, int64_t few_rows);

inline constexpr int64_t kFewRows = 16;  // for which a second kernel, to add what groups left, does not pay

// sums[i] becomes, or grows by, the sum of partials[i][0..groups).
void add_partials(CudaContext& context, const float* partials, int groups, int64_t count, float* sums, Gradient mode);

}  // namespace ddp
