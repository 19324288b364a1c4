#include "train/step/weight_average.h"

namespace ddp {

double average_rate(const AverageConfig& config, int64_t step, int64_t steps_per_epoch) {
  if ((step - 1) % config.every != 0) return 0;
  const int64_t earlier = step - config.every;  // the step of the update before
  if (earlier < 1 || static_cast<double>((earlier - 1) / steps_per_epoch) < config.warm_up_epochs) return 1;
  return 1 - config.decay;
}

WeightAverage::WeightAverage(Device& device, Ops& ops, size_t weight_bytes, size_t stats_bytes)
    : ops_(ops), weights_(device, weight_bytes), stats_(device, stats_bytes) {}

void WeightAverage::update(const float* weights, const float* running_stats, float rate, std::span<const float> skip) {
  const auto count = [](const Buffer& buffer) { return static_cast<int64_t>(buffer.bytes() / sizeof(float)); };
  ops_.lerp(weights, this->weights(), count(weights_), rate, skip);
  if (stats_.bytes() > 0) ops_.lerp(running_stats, this->running_stats(), count(stats_), rate, skip);
}

}  // namespace ddp
