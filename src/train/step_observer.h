// Reports the phases of a step: to the other ranks (heartbeat), to the profiler (named ranges) and to the StepBlock
// (device timestamps). It observes the reducer's launches as a launch hook.
#pragma once

#include "core/stopwatch.h"
#include "ddp/reducer.h"
#include "health/phase_tracker.h"
#include "train/replica.h"
#include "train/step_result.h"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace ddp {

class StepObserver {
 public:
  // Null `phases`: no heartbeats. Wraps the reducer's launch hook and restores it at destruction. Replica and phases
  // outlive the observer.
  StepObserver(Replica& replica, PhaseTracker* phases);
  ~StepObserver();
  StepObserver(const StepObserver&) = delete;
  StepObserver& operator=(const StepObserver&) = delete;

  // Begins a phase. The reducer's wait begins Phase::allreduce, and its end Phase::update.
  void phase(Phase phase, int64_t step);
  void retired(int64_t step);  // the device has finished the step

  // Issues a device timestamp; a graph may capture it.
  void timestamp(StepBlock::Time time);

  // Ends the step on the host. Returns the step's times in Phase::data.
  DataTimes end_step();

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
  DataTimes data_;
  bool begun_ = false;  // StepBlock::kBegin has been issued
};

}  // namespace ddp
