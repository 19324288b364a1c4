// The distribution of a matrix over blocks and threads, for kernels with values per column. The matrix is a dense
// tensor: rows are samples x positions, columns are channels.
//
// A block processes one tile of `width` adjacent packs of columns. Its threads form `thread_rows` rows of `width`
// threads, which take rows of the matrix in turn. `groups` blocks share the rows of a tile. The plan depends on the
// shape only.
#pragma once

#include "ops/cuda/context.h"
#include "ops/gradient.h"

#include <cstdint>

namespace ddp {

struct ColumnPlan {
  int64_t rows;
  int packs;        // per row of the matrix
  int width;        // packs per tile
  int thread_rows;  // per block
  int tiles;        // per row of the matrix
  int groups;       // blocks per tile

  int64_t blocks() const { return int64_t{tiles} * groups; }
  // Workspace in floats for `sums` sums of each of `channels` columns.
  int64_t partials(int64_t channels, int sums) const { return groups > 1 ? channels * groups * sums : 0; }
};

constexpr int kMaxTileWidth = 64;  // packs

// Tiles have at most `max_width` packs. If narrow tiles give each thread at most `few_rows` rows, they are used, with
// one group.
ColumnPlan plan_columns(int64_t rows, int64_t packs, int max_width, int64_t few_rows);

inline constexpr int64_t kFewRows = 16;  // up to this, several groups do not pay

// Where M sums of each channel go, and the memory that the groups share.
template <int M>
struct SumsOf {
  float* at[M];  // [sum][channel]
  bool add;      // to the values there
  float* partials;
  unsigned* counters;  // CudaContext::counters()
};

}  // namespace ddp
