#include "ops/cuda/cudnn_timing.h"

#include "core/error.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace ddp::cudnn {
namespace {

CudaEvent make_timer() {
  cudaEvent_t event = nullptr;
  DDP_CUDA(cudaEventCreate(&event));
  return CudaEvent(event);
}

}  // namespace

// Each plan has one run without measurement, then several rounds. The fastest round counts, because disturbances only
// make rounds slower. A plan that fails is left out.
size_t fastest(CudaContext& context, cudnnHandle_t handle, std::span<Plan> plans, std::span<const int64_t> bytes) {
  DDP_EXPECT(!plans.empty());
  if (plans.size() == 1) return 0;
  constexpr int kRounds = 3, kRuns = 10;
  std::vector<Buffer> operands;
  std::vector<void*> pointers;
  for (const int64_t size : bytes) pointers.push_back(operands.emplace_back(context.device, size).data());
  int64_t most = 1;
  for (const Plan& plan : plans) most = std::max(most, plan.workspace());
  const Buffer workspace(context.device, most);
  const CudaEvent start = make_timer(), stop = make_timer();

  size_t best = 0;
  float best_ms = std::numeric_limits<float>::infinity();
  for (size_t i = 0; i < plans.size(); ++i) {
    try {
      plans[i].run(handle, pointers, workspace.data());
    } catch (const Error&) {
      continue;
    }
    for (int round = 0; round < kRounds; ++round) {
      DDP_CUDA(cudaEventRecord(start.get(), context.stream));
      for (int run = 0; run < kRuns; ++run) plans[i].run(handle, pointers, workspace.data());
      DDP_CUDA(cudaEventRecord(stop.get(), context.stream));
      DDP_CUDA(cudaEventSynchronize(stop.get()));
      float ms = 0;
      DDP_CUDA(cudaEventElapsedTime(&ms, start.get(), stop.get()));
      if (ms >= best_ms) continue;
      best_ms = ms;
      best = i;
    }
  }
  require(std::isfinite(best_ms), Exit::device, "none of cuDNN's {} plans for a convolution runs on this GPU",
          plans.size());
  return best;
}

}  // namespace ddp::cudnn
