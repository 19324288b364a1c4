// Writes the state of a run and of all its ranks to status.json in the run's folder, about once a second, for
// `ddp_train watch`. A thread of its own writes: a disk that hangs delays neither the training nor the watchdog.
#pragma once

#include "telemetry/progress_rate.h"
#include "telemetry/run_status.h"
#include "train/observers/run_observer.h"

#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace ddp {

struct StatusFileConfig {
  std::filesystem::path folder;
  std::string host;  // of this rank
  // Any thread calls these. The former throws Error where the folder is no longer the run's own.
  std::function<void()> require_in_place;
  std::function<std::vector<RankStatus>()> ranks;
  int64_t epochs = 1, steps_per_epoch = 1;
  int64_t total_steps = 1, done = 0;  // steps of the run; those before this process
};

class StatusFile final : public RunObserver {
 public:
  // It never throws because of the file: the first error is a warning, and the run goes on.
  // A folder that was removed or replaced gets nothing more.
  explicit StatusFile(StatusFileConfig config);
  ~StatusFile() override;  // without close(): the run has failed
  StatusFile(const StatusFile&) = delete;
  StatusFile& operator=(const StatusFile&) = delete;

  // Reads no clock, allocates nothing and makes no system call.
  void step(const StepResult& result) override;
  void evaluation(int64_t epoch, int64_t step, const Evaluation& evaluation, double seconds) override;
  void speed(int64_t, int64_t, const StepSpeed&) override {}
  void saved(const SaveOutcome&) override {}
  void close(bool stopped) override;  // the run has ended, by itself or on request

 private:
  struct Counters {  // of this process
    int64_t epoch = 1, step = 0, steps = 0, samples = 0;
    double loss = std::nan(""), evaluating_seconds = 0;
    StepTimes parts = {};  // sums, in ms
    int64_t sequence_length = 0;
    std::optional<double> accuracy = {}, test_loss = {};
  };
  void run();
  Counters latest();
  void share();
  RunStatus status(const Counters& now);
  void write(RunStatus::State state);
  void end(RunStatus::State state);

  const StatusFileConfig config_;

  Counters mine_;  // of the training thread
  std::mutex shared_mutex_;
  Counters shared_;

  // Of the thread that writes.
  Counters before_;        // when the rate was last measured
  int64_t before_ns_ = 0;  // 0: no step yet
  ProgressRate rate_;
  StepTimes parts_;  // of the steps between the last two measurements
  bool warned_ = false, given_up_ = false;

  std::mutex mutex_;
  std::condition_variable changed_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace ddp
