// Tells what a step does, as it is done: to the other ranks (heartbeat), to the profiler (a named range), and to the
// step's block (timestamps of the device). It observes the reducer's launches as a launch hook.
#pragma once

#include "core/stopwatch.h"
#include "ddp/reducer.h"
#include "train/phase_tracker.h"
#include "train/replica.h"

#include <cstdint>
#include <string>
#include <vector>

namespace ddp {

class StepObserver {
 public:
  // Without `progress` there are no heartbeats. Wraps the reducer's launch hook until it ends. Both outlive it.
  StepObserver(Replica& replica, PhaseTracker* phases);
  ~StepObserver();
  StepObserver(const StepObserver&) = delete;
  StepObserver& operator=(const StepObserver&) = delete;

  // The phase that begins. The reducer's wait enters Phase::allreduce, and then Phase::update.
  void phase(Phase phase, int64_t step);
  void retired(int64_t step);  // the device has ended the step

  // A point in the order of device work; may be captured.
  void timestamp(StepBlock::Time time);

  // The end of the step's issue. Returns how long it was in Phase::data.
  double end_step();

 private:
  void observe(int number, const std::function<void()>& run);
  void close_range();

  Replica& replica_;
  PhaseTracker* const phases_;
  const LaunchHook inner_;
  std::vector<std::string> bucket_names_;
  Phase phase_ = Phase::start_up;
  int64_t step_ = 0;
  bool in_range_ = false;
  Stopwatch since_data_;
  double data_ms_ = 0;
};

}  // namespace ddp
