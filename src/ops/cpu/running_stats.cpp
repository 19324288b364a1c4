#include "ops/cpu/cpu_ops.h"
#include "ops/functors.h"

#include <algorithm>
#include <vector>

namespace ddp {
namespace {

class CpuRunningStats final : public RunningStats {
 public:
  explicit CpuRunningStats(std::span<const RunningStatsSpan> layers) : layers_(layers.begin(), layers.end()) {}

  void update(float* state, const float* sums, float samples, bool replace, std::span<const float> skip) override {
    if (std::any_of(skip.begin(), skip.end(), [](float value) { return value != 0; })) return;
    for (const RunningStatsSpan& layer : layers_) {
      const RunningStatsRule<double> rule{static_cast<double>(samples) * layer.positions,
                                          replace ? 1.0f : layer.momentum, layer.unbiased};
      float *means = state + layer.offset, *variances = means + layer.channels;
      const float *s1 = sums + layer.offset, *s2 = s1 + layer.channels;
      for (int64_t c = 0; c < layer.channels; ++c) rule(means[c], variances[c], s1[c], s2[c]);
    }
  }

 private:
  std::vector<RunningStatsSpan> layers_;
};

}  // namespace

std::unique_ptr<RunningStats> CpuOps::running_stats(std::span<const RunningStatsSpan> layers) {
  return std::make_unique<CpuRunningStats>(layers);
}

}  // namespace ddp
