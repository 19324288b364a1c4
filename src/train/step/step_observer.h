// Reports the phases of a step: to the other ranks (heartbeat), to the profiler (named ranges), to the StepBlock
// (device timestamps) and to the trace. It observes the reducer's launches as a launch hook.
#pragma once

#include "core/stopwatch.h"
#include "ddp/reducer.h"
#include "health/phase_tracker.h"
#include "train/step/replica.h"
#include "train/step/step_result.h"
#include "train/step/step_trace.h"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace ddp {

class StepObserver {
 public:
  // Null `phases`: no heartbeats; null `trace`: no spans of layers and buckets. Wraps the reducer's launch hook and
  // restores it at destruction. Replica and phases outlive the observer.
  StepObserver(Replica& replica, PhaseTracker* phases, StepTrace* trace);
  ~StepObserver();
  StepObserver(const StepObserver&) = delete;
  StepObserver& operator=(const StepObserver&) = delete;

  // Begins a phase. The reducer's wait begins Phase::allreduce, and its end Phase::update.
  void phase(Phase phase, int64_t step);
  void retired(int64_t step);  // the device has finished the step

  // The work of a micro-batch begins, outside of its graph; see StepTrace.
  void begin_work(GraphKey key, bool alone);
  void end_work();  // at the end of the graph, and once more after it

  // Issues a device timestamp; a graph may capture it.
  void timestamp(StepBlock::Time time);

  // Ends the step on the host. Returns the step's times in Phase::data.
  DataTimes end_step();

 private:
  void observe(int number, const std::function<void()>& run);
  void close_range();

  Replica& replica_;
  PhaseTracker* const phases_;
  StepTrace* const trace_;
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
