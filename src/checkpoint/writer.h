// Writes checkpoints from snapshots in its own thread, while training continues. It writes one checkpoint at a time. A
// failed write is reported as an outcome, not thrown: training continues with the last good checkpoint.
#pragma once

#include "checkpoint/checkpoint.h"
#include "core/span_recorder.h"

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace ddp {

struct CheckpointWriterConfig {
  std::filesystem::path folder;  // the run's folder of checkpoints
  int keep_last = 3;             // see prune_checkpoints()

  // Throws Error where `folder` is no longer that of this run; called in the thread before each change of the folder.
  std::function<void()> require_in_place = [] {};
  std::function<void(const std::filesystem::path&)> about_to_write =
      {};                         // see write_checkpoint(); called in the thread
  SpanRecorder* spans = nullptr;  // records each write; null: none
};

struct SaveOutcome {
  int64_t step = 0;
  std::filesystem::path path;  // path of the checkpoint; empty after an error
  std::string error;           // empty: the checkpoint is on the disk
  double seconds = 0;          // duration of the write
  bool folder_lost = false;    // `error` is that of require_in_place()
};

class CheckpointWriter {
 public:
  // The descriptions that `tensors` views outlive it.
  CheckpointWriter(CheckpointWriterConfig config, const Tensors& tensors);
  ~CheckpointWriter();  // calls finish()
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;

  // Waits for the write in progress, starts this one and returns. The values do not change until the write has ended.
  void save(SnapshotView snapshot, bool best);
  void finish();                       // waits for the write in progress
  bool busy() const { return busy_; }  // whether a write is in progress

  // The outcomes since the last call, in order. Called by the thread that calls save().
  std::vector<SaveOutcome> outcomes();

 private:
  void write(const SnapshotView& snapshot, bool best);
  void end(SaveOutcome outcome);

  const CheckpointWriterConfig config_;
  const Tensors tensors_;
  std::thread thread_;
  std::atomic<bool> busy_ = false;
  std::mutex mutex_;
  std::vector<SaveOutcome> ended_;  // guarded by the mutex
};

}  // namespace ddp
