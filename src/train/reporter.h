// What a run tells its user: lines or a progress display on the terminal, and metrics.jsonl in the output folder. Only
// rank 0's reporter speaks; the others take the same calls and do nothing.
#pragma once

#include "train/evaluation.h"
#include "train/step.h"

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>

namespace ddp {

struct ReporterConfig {
  bool speaks = false;      // rank 0
  bool terminal = false;    // rewrite one line in place of printing many
  int64_t print_freq = 50;  // steps between printed lines; 0: none
  int64_t epochs = 1, steps_per_epoch = 1;
  std::filesystem::path metrics;  // metrics.jsonl, which is created
};

class Reporter {
 public:
  // Throws Error(Exit::output) where the file cannot be created.
  explicit Reporter(const ReporterConfig& config);
  ~Reporter();

  // All throw Error(Exit::output) where the disk is full. Steps come in order.
  void step(const StepResult& result);
  void evaluation(int64_t epoch, const Evaluation& evaluation, double seconds);

  // At the end of a run that went well.
  void close();

 private:
  void write_line(const std::string& json);
  void flush();
  void print_progress(const StepResult& last);
  void clear_progress();

  ReporterConfig config_;
  std::FILE* file_ = nullptr;
  struct Window {  // since the last printed line
    int64_t steps = 0, samples = 0;
    double data_ms = 0, compute_ms = 0, exposed_comm_ms = 0;
    std::chrono::steady_clock::time_point start = std::chrono::steady_clock::now();
  } window_;
  std::chrono::steady_clock::time_point drawn_{};
};

}  // namespace ddp
