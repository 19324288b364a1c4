// Reports a run's progress: lines or a progress bar on stdout, and events in metrics.jsonl. Only rank 0's reporter is
// enabled; on other ranks the calls do nothing. If a write to metrics.jsonl fails, the reporter warns once and training
// continues without the file.
#pragma once

#include "checkpoint/writer.h"
#include "core/stopwatch.h"
#include "ddp/step_speed.h"
#include "train/evaluation.h"
#include "train/step_result.h"

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

namespace ddp {

struct ReporterConfig {
  bool enabled = false;     // true on rank 0
  bool terminal = false;    // draws a progress bar instead of printing lines
  int64_t print_freq = 50;  // steps between printed lines; 0: no lines and no bar
  int64_t epochs = 1, steps_per_epoch = 1;
  std::filesystem::path metrics;  // path of metrics.jsonl

  // Steps done by a resumed run. The reporter keeps the events of an existing file up to this step (with
  // `evaluation_due`, without the evaluation of this step) and appends new ones. 0: it creates a new file.
  int64_t done = 0;
  bool evaluation_due = false;
};

class Reporter {
 public:
  // Throws Error(Exit::output) where metrics.jsonl cannot be created, Error(Exit::data) where it exists and cannot be
  // read.
  explicit Reporter(const ReporterConfig& config);
  ~Reporter();
  Reporter(const Reporter&) = delete;
  Reporter& operator=(const Reporter&) = delete;

  void step(const StepResult& result);  // in the order of the steps
  void evaluation(int64_t epoch, int64_t step, const Evaluation& evaluation, double seconds);
  void speed(int64_t epoch, int64_t step, const StepSpeed& speed);  // of the steps since the last call
  void saved(const SaveOutcome& outcome);
  void flush();  // writes buffered events to the file

  // Ends a successful run. Throws Error(Exit::output) where metrics.jsonl is not complete.
  void close();

 private:
  void write_line(const std::string& json);
  void give_up_metrics();
  void print_progress(const StepResult& last);
  void clear_progress();

  ReporterConfig config_;
  std::FILE* file_ = nullptr;  // null: not enabled, closed, or a write has failed
  std::string failure_;        // the reason of a failed write
  struct Window {              // since the last printed line
    int64_t steps = 0, samples = 0;
    double data_ms = 0, compute_ms = 0, exposed_comm_ms = 0;
    Stopwatch watch;
  } window_;
  std::chrono::steady_clock::time_point drawn_{};
};

}  // namespace ddp
