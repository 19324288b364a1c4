// Receives the events of a run, in their order, on the training thread of rank 0.
#pragma once

#include "checkpoint/run_state.h"
#include "checkpoint/writer.h"
#include "core/broken_picture.h"
#include "ddp/step_speed.h"
#include "train/evaluation/evaluation.h"
#include "train/step/step_result.h"
#include "train/step/step_timeline.h"

#include <cstdint>
#include <string>
#include <vector>

namespace ddp {

class RunObserver {
 public:
  virtual ~RunObserver() = default;

  virtual void step(const StepResult& result) = 0;  // in the order of the steps
  virtual void evaluation(int64_t epoch, int64_t step, const Evaluation& evaluation, double seconds) = 0;
  // After the evaluation that ends the run before its last step.
  virtual void early_stop(int64_t epoch, int64_t step, const EarlyStopState& state) {
    (void)epoch, (void)step, (void)state;
  }
  virtual void speed(int64_t epoch, int64_t step, const StepSpeed& speed) = 0;  // of the steps since the last call
  // The ranks have other shares (ddp/balance.h) from `epoch` on, by these speeds in samples/s.
  virtual void balanced(int64_t epoch, int64_t step, const std::vector<int64_t>& shares,
                        const std::vector<double>& speeds) {
    (void)epoch, (void)step, (void)shares, (void)speeds;
  }
  virtual void saved(const SaveOutcome& outcome) = 0;
  virtual void timeline(const StepTimeline&) {}  // of a typical step, once in a run with a trace

  // Pictures of a part of the data that cannot be read any more. `part`: "training" or "validation". `known`: how many
  // of its `pictures` have been excluded since the run began, these included.
  virtual void excluded(const std::string& part, const std::vector<BrokenPicture>& broken, int64_t known,
                        int64_t pictures) {
    (void)part, (void)broken, (void)known, (void)pictures;
  }
  // An epoch with excluded samples has ended: each of the other `samples` was seen exactly once.
  virtual void exclusions_of_epoch(int64_t epoch, int64_t step, int64_t samples, int64_t excluded) {
    (void)epoch, (void)step, (void)samples, (void)excluded;
  }

  // The parameters without a gradient in a step, once a process: at its first pause after some steps.
  virtual void gradients(const std::vector<std::string>& zero) { (void)zero; }

  virtual void flush() {}  // writes buffered events to the disk's cache: a resumed run keeps the events before a save

  // Ends a successful run; `stopped`: on request, before its end. Throws Error(Exit::output) where a file of events is
  // not complete.
  virtual void close(bool /*stopped*/) {}
};

}  // namespace ddp
