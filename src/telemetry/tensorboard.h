// The events of a run for TensorBoard, in two of its runs: `train` and `test`. Both have the tag `loss`, so that
// TensorBoard draws the two losses in one plot.
#pragma once

#include "telemetry/event_file.h"
#include "train/observers/run_observer.h"

#include <cstdint>
#include <filesystem>

namespace ddp {

struct TensorBoardConfig {
  std::filesystem::path folder;  // is created in its parent folder

  // Steps done by a resumed run. Of earlier events, TensorBoard shows those up to this step (with `evaluation_due`,
  // without the evaluation of this step).
  int64_t done = 0;
  bool evaluation_due = false;
};

class TensorBoard final : public RunObserver {
 public:
  // Creates new event files. Throws Error(Exit::output).
  explicit TensorBoard(const TensorBoardConfig& config);

  void step(const StepResult& result) override;
  void evaluation(int64_t epoch, int64_t step, const Evaluation& evaluation, double seconds) override;
  void speed(int64_t epoch, int64_t step, const StepSpeed& speed) override;
  void saved(const SaveOutcome&) override {}
  void flush() override;
  void close(bool stopped) override;

 private:
  EventFile train_, test_;
};

}  // namespace ddp
