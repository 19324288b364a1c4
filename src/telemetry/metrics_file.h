// The events of a run as lines of JSON: metrics.jsonl. A reader that follows the file sees whole lines only, except
// those of more than 1024 bytes, such as the timeline, and those that a full disk has cut.
#pragma once

#include "telemetry/growing_file.h"
#include "train/observers/run_observer.h"

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace ddp {

struct MetricsFileConfig {
  std::filesystem::path path;

  // Steps done by a resumed run. The file keeps its events up to this step (with `evaluation_due`, without the
  // evaluation of this step and what it has decided); new events follow. 0: a new file.
  int64_t done = 0;
  bool evaluation_due = false;

  std::string run_event = {};  // the first line that this process adds, as JSON; empty: none
};

class MetricsFile final : public RunObserver {
 public:
  // Throws Error(Exit::output) where the file cannot be created, Error(Exit::data) where it exists and cannot be read.
  explicit MetricsFile(const MetricsFileConfig& config);

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
  void timeline(const StepTimeline& timeline) override;
  void flush() override;
  void close(bool stopped) override;

 private:
  void write_line(const std::string& json);

  GrowingFile file_;
};

}  // namespace ddp
