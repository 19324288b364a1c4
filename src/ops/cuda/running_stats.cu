#include "device/buffer.h"
#include "ops/cuda/cuda_ops.h"
#include "ops/cuda/pack.cuh"
#include "ops/cuda/reduce.cuh"
#include "ops/functors.h"

namespace ddp {
namespace {

// One block per layer.
__global__ void update_running_stats_kernel(const RunningStatsSpan* layers, float* state, const float* sums,
                                            float samples, bool replace, const float* skip, int skips) {
  await_previous_kernel();
  if (any_set(skip, skips)) return;
  const RunningStatsSpan layer = layers[blockIdx.x];
  const RunningStatsRule<float> rule{samples * layer.positions, replace ? 1.0f : layer.momentum, layer.unbiased};
  float *means = state + layer.offset, *variances = means + layer.channels;
  const float *s1 = sums + layer.offset, *s2 = s1 + layer.channels;
  for (int64_t c = threadIdx.x; c < layer.channels; c += kThreads) rule(means[c], variances[c], s1[c], s2[c]);
}

class CudaRunningStats final : public RunningStats {
 public:
  CudaRunningStats(CudaContext& context, std::span<const RunningStatsSpan> layers)
      : context_(context), count_(std::ssize(layers)), layers_(context.device, layers.size_bytes()) {
    context.device.upload(layers_.data(), layers.data(), layers.size_bytes());
  }

  void update(float* state, const float* sums, float samples, bool replace, std::span<const float> skip) override {
    launch(context_.stream, count_, kThreads, update_running_stats_kernel, layers_.as<const RunningStatsSpan>(), state,
           sums, samples, replace, skip.data(), skip.size());
  }

 private:
  CudaContext& context_;
  int64_t count_;
  Buffer layers_;
};

}  // namespace

std::unique_ptr<RunningStats> CudaOps::running_stats(std::span<const RunningStatsSpan> layers) {
  return std::make_unique<CudaRunningStats>(context_, layers);
}

}  // namespace ddp
