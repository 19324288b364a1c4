// Measures where the time of the steps goes, on all ranks.
#pragma once

#include "data/sampler.h"
#include "ddp/noise_scale.h"
#include "ddp/step_speed.h"
#include "train/step/replica.h"
#include "train/step/step_result.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

namespace ddp {

// The slowest rank's time in ms for `work`. Collective, between steps.
double slowest_ms(Replica& replica, const std::function<void()>& work);

// Of one value or more; of an even number the upper of the two in the middle.
double median(std::vector<double> values);

// The median of `runs` such times, after one run that does not count.
double median_ms(Replica& replica, int runs, const std::function<void()>& work);

class SpeedMeter {
 public:
  // `sampler` of the training. Both outlive the meter.
  SpeedMeter(Replica& replica, const DistributedSampler& sampler);

  // The first two steps, also after shards_changed(), do not count: libraries still make their plans, and a graph is
  // captured.
  void add(const StepResult& step);

  // The steps since the last call; none: too few. The first call with steps also measures the collectives alone. Calls
  // `enter` before each wait for the other ranks. Collective, between steps; leaves the training's state unchanged.
  std::optional<StepSpeed> take(const std::function<void()>& enter = [] {});

  void shards_changed();  // collective; call it after take()

  std::optional<StepSpeed> over_the_run() const;  // of all steps that take() has had

 private:
  static constexpr int kWarmUp = 2;
  static constexpr int64_t kNoiseSteps = 10;  // the least for an estimate of the noise scale

  void begin(const std::function<void()>& enter);
  void measure_shares();
  double communication_ms(const std::function<void()>& enter) const;
  double own_samples(int64_t steps) const;
  StepSpeed sums_over_ranks(int64_t steps);

  Replica& replica_;
  const DistributedSampler& sampler_;
  int64_t seen_ = 0, steps_ = 0, last_ = 0;  // last_: number of the last step
  StepTimes sum_;                            // of this rank's `steps_` steps since the last take()
  int64_t noise_steps_ = 0;
  GradientSquares squares_;  // this rank's part of `noise_steps_` full steps, since the last estimate
  StepSpeed taken_;          // sums, not means, of `taken_steps_` steps; the last estimate of the noise scale
  int64_t taken_steps_ = 0;
};

}  // namespace ddp
