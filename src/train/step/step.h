// One optimizer step over the global batch, on every rank at once.
#pragma once

#include "train/step/in_flight_steps.h"
#include "train/step/prefetcher.h"
#include "train/step/step_observer.h"

#include <memory>
#include <optional>
#include <vector>

namespace ddp {

class Step {
 public:
  // Replica, phases and spans outlive the step; phases and spans may be null.
  explicit Step(Replica& replica, const StepConfig& config = {}, PhaseTracker* phases = nullptr,
                SpanRecorder* spans = nullptr);

  // Issues the next step; calls `next` once for each micro-batch. Does not allocate. Apart from `next`, waits only for
  // the step two steps before, and returns its result, or nullopt if there is none. Throws as InFlightSteps::retire()
  // does. `average_rate` above 0 updates the replica's average after the step.
  std::optional<StepResult> run(const NextBatch& next, double lr, double average_rate = 0);

  // The next steps of each kind are issued again before a graph replays them: the model has been planned again. No step
  // is in flight.
  void drop_graphs() { graphs_ = replica_.device.graph_cache(); }

  // Waits for the steps in flight, and returns their results in order.
  std::vector<StepResult> drain();

  int64_t skipped_in_a_row() const { return in_flight_.skipped_in_a_row(); }  // up to the last step with a known result

 private:
  void compute(const DeviceBatch& batch);
  void accumulate(const DeviceBatch& batch);  // a micro-batch before the last
  StepResult retire();

  Replica& replica_;
  const int micro_batches_;
  std::optional<StepTrace> trace_;  // graphs write to its memory
  std::unique_ptr<GraphCache> graphs_;
  StepObserver observer_;
  InFlightSteps in_flight_;
};

}  // namespace ddp
