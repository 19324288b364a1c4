// The exponential moving average of the weights and of the running statistics of the batch norms, as torchvision's
// --model-ema and torch.optim.swa_utils.AveragedModel with use_buffers=True keep it: average += (1 - decay) * (value -
// average) in every `every`-th step. All ranks compute it for themselves, from equal values.
#pragma once

#include "device/buffer.h"
#include "device/device.h"
#include "ops/ops.h"

#include <cstddef>
#include <cstdint>
#include <span>

namespace ddp {

struct AverageConfig {
  int64_t every = 32;      // steps between updates; the first step has one
  double decay = 0.99998;  // of an update, as it is: torchvision's train.py adapts it to batch, ranks and epochs
  double warm_up_epochs = 0;
};

// The rate of the update after `step`, from 1: 1 - decay, 0 without an update. The first update copies, and those up to
// the first one after the warm-up, where torchvision's train.py begins anew.
double average_rate(const AverageConfig& config, int64_t step, int64_t steps_per_epoch);

class WeightAverage {
 public:
  // The buffers have the layouts of the replica's. Device and ops outlive the average.
  WeightAverage(Device& device, Ops& ops, size_t weight_bytes, size_t stats_bytes);

  float* weights() const { return weights_.as<float>(); }
  float* running_stats() const { return stats_.as<float>(); }

  // Moves to the replica's values by `rate`, ordered after the device work so far. `skip`: see Optimizer::step().
  void update(const float* weights, const float* running_stats, float rate, std::span<const float> skip);

 private:
  Ops& ops_;
  const Buffer weights_, stats_;
};

}  // namespace ddp
