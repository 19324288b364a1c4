// The progress of a run on stdout: lines, or a progress bar on a terminal.
#pragma once

#include "telemetry/progress_rate.h"
#include "telemetry/terminal.h"
#include "train/observers/run_observer.h"

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>

namespace ddp {

struct ConsoleConfig {
  bool bar = false;         // draws a progress bar on the terminal instead of printing lines
  bool colour = false;      // of the bar
  int64_t print_freq = 50;  // steps between printed lines; 0: no lines and no bar
  int64_t epochs = 1, steps_per_epoch = 1;
  int64_t total_steps = 1;             // of the run
  std::function<void()> printed = {};  // called after each line of a step, and after each redraw of the bar
};

class Console final : public RunObserver {
 public:
  explicit Console(ConsoleConfig config);
  ~Console() override;  // removes the bar
  Console(const Console&) = delete;
  Console& operator=(const Console&) = delete;

  void step(const StepResult& result) override;
  void evaluation(int64_t epoch, int64_t step, const Evaluation& evaluation, double seconds) override;
  void early_stop(int64_t epoch, int64_t step, const EarlyStopState& state) override;
  void speed(int64_t epoch, int64_t step, const StepSpeed& speed) override;
  void balanced(int64_t epoch, int64_t step, const std::vector<int64_t>& shares,
                const std::vector<double>& speeds) override;
  void saved(const SaveOutcome& outcome) override;
  void excluded(const std::string& part, const std::vector<BrokenPicture>& broken, int64_t known,
                int64_t pictures) override;
  void exclusions_of_epoch(int64_t epoch, int64_t step, int64_t samples, int64_t excluded) override;
  void close(bool stopped) override;

 private:
  using Clock = std::chrono::steady_clock;
  void print_line(const StepResult& last);
  void draw_bar(const StepResult& last);
  int64_t step_of_epoch(int64_t step) const { return (step - 1) % config_.steps_per_epoch + 1; }

  const ConsoleConfig config_;
  struct Window {  // since the last printed line
    int64_t steps = 0, samples = 0, tokens = 0;
    StepTimes parts = {};  // sums
    double seconds() const { return 1e-3 * parts.total(); }
  } window_;

  std::shared_ptr<const Terminal> terminal_;  // null: lines
  ProgressRate rate_;
  Clock::time_point drawn_{};  // the last redraw
};

}  // namespace ddp
