// What a run tells its user: lines or a progress display on the terminal, and metrics.jsonl in the output folder. Only
// rank 0's reporter speaks; the others take the same calls and do nothing. Where metrics.jsonl cannot be written, a
// warning says so once, and training goes on without it.
#pragma once

#include "core/stopwatch.h"
#include "train/checkpoint_writer.h"
#include "train/evaluation.h"
#include "train/step.h"

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

namespace ddp {

struct ReporterConfig {
  bool enabled = false;     // rank 0
  bool terminal = false;    // rewrite one line in place of printing many
  int64_t print_freq = 50;  // steps between printed lines; 0: none
  int64_t epochs = 1, steps_per_epoch = 1;
  std::filesystem::path metrics;  // metrics.jsonl, which is created

  // Where the run goes on: of a file that is there, the events up to this step are kept (with `evaluation_due`, not the
  // evaluation of this step), and new ones follow. 0: nothing is kept.
  int64_t done = 0;
  bool evaluation_due = false;
};

class Reporter {
 public:
  // Throws Error(Exit::output) where the file cannot be created.  Steps come in order.
  explicit Reporter(const ReporterConfig& config);
  ~Reporter();

  void step(const StepResult& result);
  void evaluation(int64_t epoch, int64_t step, const Evaluation& evaluation, double seconds);
  void saved(const SaveOutcome& outcome);
  void flush();  // to the file

  // At the end of a run that went well. Throws Error(Exit::output) where the file is not complete.
  void close();

 private:
  void write_line(const std::string& json);
  void give_up_metrics();
  void print_progress(const StepResult& last);
  void clear_progress();

  ReporterConfig config_;
  std::FILE* file_ = nullptr;  // null where nothing is written, or no more
  std::string failure_;        // why no more
  struct Window {              // since the last printed line
    int64_t steps = 0, samples = 0;
    double data_ms = 0, compute_ms = 0, exposed_comm_ms = 0;
    Stopwatch watch;
  } window_;
  std::chrono::steady_clock::time_point drawn_{};
};

}  // namespace ddp
