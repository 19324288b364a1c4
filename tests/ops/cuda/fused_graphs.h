// Operation graphs that cuDNN computes in one kernel, which it compiles at run time: a convolution with what a residual
// network computes beside it.
#pragma once

#include "ops/cuda/cudnn_graph.h"

#include <cstdint>
#include <vector>

namespace ddp::cudnn::testing {

enum class Fusion {
  statistics,    // y; sums of y - c and of its squares, a float each for each channel. c: a float for each channel
  sum,           // input gradient + other gradient
  sum_and_relu,  // (input gradient + other gradient) where the output of the ReLU before is positive, else 0
};
inline constexpr Fusion kFusions[] = {Fusion::statistics, Fusion::sum, Fusion::sum_and_relu};

Pass pass_of(Fusion fusion);

struct FusedGraph {
  Graph graph;
  std::vector<int64_t> bytes;  // of each operand
};

// The convolution has no ReLU behind it.
FusedGraph fused_graph(const Target& target, const Conv2dDesc& desc, int64_t n, DType type, Fusion fusion);

// The same pass without what a fusion adds.
FusedGraph plain_graph(const Target& target, const Conv2dDesc& desc, int64_t n, DType type, Pass pass);

}  // namespace ddp::cudnn::testing
