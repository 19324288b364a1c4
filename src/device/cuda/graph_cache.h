// Recordings as CUDA graphs. The first call with a key issues the work as it is, which lets libraries load kernels and
// connect; the second captures it; from then on the graph is launched.
#pragma once

#include "device/cuda/handles.h"
#include "device/graph_cache.h"

#include <functional>
#include <memory>

namespace ddp {

// `join` is called at the end of the work, to bring branches that other streams took back to `stream`. Without `graphs`
// every call issues the work.
std::unique_ptr<GraphCache> make_cuda_graph_cache(cudaStream_t stream, bool graphs, std::function<void()> join);

}  // namespace ddp
