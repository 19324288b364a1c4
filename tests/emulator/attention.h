// The operations of a graph of attention on the CPU, one after another: what cuDNN's fused kernel must compute.
#pragma once

#include "ops/cuda/attention_graph.h"

#include <span>

namespace ddp::cudnn::emulated {

// `operands` in the order of graph.operands. Intermediate values are rounded to their type; sums are f64.
void compute(const AttentionGraph& graph, std::span<void* const> operands);

}  // namespace ddp::cudnn::emulated
