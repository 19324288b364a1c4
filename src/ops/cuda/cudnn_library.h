// cuDNN of one rank: its handle, and which engine computes which pass.
#pragma once

#include "core/stopwatch.h"
#include "ops/cuda/cuda_ops.h"
#include "ops/cuda/cudnn_timing.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace ddp {

// A pass at the largest batch size of a rank, to choose an engine for.
struct EngineSearch {
  std::string name;  // all that its engines depend on
  std::function<cudnn::Graph()> graph;
  std::vector<int64_t> bytes;  // of the graph's operands
  DType type;
  cudnn::Rules rules;
  size_t candidates = cudnn::kAll;  // the largest number of engines to try, the fastest first, as cuDNN expects them
  bool required = true;             // false: if no engine runs, none is chosen; else Error(Exit::device)
};

struct CudnnLibrary {
  explicit CudnnLibrary(cudaStream_t stream);

  // Times the engines of a pass, once for each name. All ranks get the fastest engine of rank 0. Deterministic runs do
  // not time, because times differ from run to run and recommendations do not. Collective: all ranks call it, even a
  // rank without batch sizes, which has no search.
  cudnn::Choice choose(CudaContext& context, const std::optional<EngineSearch>& search);

  std::unique_ptr<cudnnContext, Destroy<cudnnDestroy>> handle;
  cudnn::Target target;
  std::map<std::string, std::optional<cudnn::Plan>> compiled;  // by the name of a pass: plans that take cuDNN long

 private:
  cudnn::Choice fastest(CudaContext& context, const EngineSearch& search);

  std::map<std::string, cudnn::Choice> fastest_;  // by the name of a pass; of this rank
  std::optional<Stopwatch> since_first_;          // since the first measurement
};

// For one plan, in bytes. Engines that transpose or pad large tensors need more than a small GPU has to spare.
int64_t cudnn_workspace_limit();

}  // namespace ddp
