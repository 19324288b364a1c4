// Records the spans of some steps of a run, on every rank.
#pragma once

#include "core/span_recorder.h"
#include "train/step/step_timeline.h"

#include <cstdint>
#include <optional>

namespace ddp {

class RunTrace : public SpanRecorder {
 public:
  // Whether the trainer pauses after `step` for the trace: equal on all ranks.
  virtual bool pauses_after(int64_t step) const = 0;

  // At the start of the training, at each of its pauses and where the run ends: no step is in flight, and `step` steps
  // are done. Returns the timeline of a typical step on rank 0 once, after the last step of the trace. Collective.
  virtual std::optional<StepTimeline> paused(int64_t step, bool run_ends) = 0;
};

}  // namespace ddp
