// Measures where the time of the steps goes, on all ranks.
#pragma once

#include "ddp/step_speed.h"
#include "train/replica.h"
#include "train/step_result.h"

#include <cstdint>
#include <functional>
#include <optional>

namespace ddp {

// The median over `runs` of the slowest rank's time in ms, after one run that does not count. Collective, between
// steps.
double median_ms(Replica& replica, int runs, const std::function<void()>& work);

class SpeedMeter {
 public:
  void add(const StepResult& step);  // the first two steps do not count: caches and branch predictors are cold

  // The steps since the last call; none: too few. The first call with steps also measures the collectives alone.
  // Collective, between steps; leaves the training's state unchanged.
  std::optional<StepSpeed> take(Replica& replica);

  std::optional<StepSpeed> whole() const;  // all steps that take() has had

 private:
  static constexpr int kWarmUp = 2;

  StepTimes sum_;  // of this rank's steps since the last take()
  int64_t seen_ = 0, steps_ = 0;
  StepSpeed taken_;  // sums, not means, of `taken_steps_` steps
  int64_t taken_steps_ = 0;
};

}  // namespace ddp
