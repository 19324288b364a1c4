// A graph cache with CUDA graphs. The first call with a key issues the work, so that libraries load kernels and open
// connections. The second call captures the work as a graph. That call and all later calls launch the graph.
#pragma once

#include "device/cuda/handles.h"
#include "device/graph_cache.h"

#include <functional>
#include <memory>

namespace ddp {

// Captures the work that `issue` issues to `stream`, which joins all other streams of that work. Throws what `issue`
// throws, and Error(Exit::device) where the work cannot be captured.
CudaGraphExec capture_graph(cudaStream_t stream, const std::function<void()>& issue);

// `join` is called at the end of the work; it orders `stream` after the other streams that the work has used. If
// `graphs` is false, every call issues the work.
std::unique_ptr<GraphCache> make_cuda_graph_cache(cudaStream_t stream, bool graphs, std::function<void()> join);

}  // namespace ddp
