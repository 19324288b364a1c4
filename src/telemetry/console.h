// The progress of a run on stdout: lines, or a progress bar on a terminal.
#pragma once

#include "core/stopwatch.h"
#include "train/run_observer.h"

#include <chrono>
#include <cstdint>
#include <functional>
#include <utility>

namespace ddp {

struct ConsoleConfig {
  bool terminal = false;    // draws a progress bar instead of printing lines
  int64_t print_freq = 50;  // steps between printed lines; 0: no lines and no bar
  int64_t epochs = 1, steps_per_epoch = 1;
  std::function<void()> printed = {};  // called after each line of a step, and after each redraw of the bar
};

class Console final : public RunObserver {
 public:
  explicit Console(ConsoleConfig config) : config_(std::move(config)) {}
  ~Console() override { clear_progress(); }
  Console(const Console&) = delete;
  Console& operator=(const Console&) = delete;

  void step(const StepResult& result) override;
  void evaluation(int64_t epoch, int64_t step, const Evaluation& evaluation, double seconds) override;
  void speed(int64_t epoch, int64_t step, const StepSpeed& speed) override;
  void saved(const SaveOutcome& outcome) override;

 private:
  void print_progress(const StepResult& last);
  void clear_progress();

  const ConsoleConfig config_;
  struct Window {  // since the last printed line
    int64_t steps = 0, samples = 0;
    double data_ms = 0, compute_ms = 0, exposed_comm_ms = 0;
    Stopwatch watch;
  } window_;
  std::chrono::steady_clock::time_point drawn_{};
};

}  // namespace ddp
