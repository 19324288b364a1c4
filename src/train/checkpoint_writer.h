// Writes checkpoints in a thread of its own, from snapshots, while training goes on. One at a time: the next waits for
// the last. What fails is told, not thrown: training goes on with the last good checkpoint.
#pragma once

#include "train/checkpoint.h"

#include <cstdint>
#include <filesystem>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace ddp {

struct CheckpointWriterConfig {
  std::filesystem::path folder;                                           // "checkpoints" of the run
  int keep_last = 3;                                                      // 0: all
  std::function<void(const std::filesystem::path&)> about_to_write = {};  // from the thread; see write_checkpoint
};

struct SaveOutcome {
  int64_t step = 0;
  std::filesystem::path path;  // of the checkpoint
  std::string error;           // empty: it is on the disk
  double seconds = 0;
};

class CheckpointWriter {
 public:
  // The tensors' descriptions outlive it.
  CheckpointWriter(CheckpointWriterConfig config, const Tensors& tensors);
  ~CheckpointWriter();  // waits for what is being written
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;

  void save(Snapshot snapshot, bool best);  // waits until the last one is written, then returns at once
  void finish();                            // waits until nothing is being written

  // What has ended since the last call, in order; from the thread that saves.
  std::vector<SaveOutcome> outcomes();

 private:
  void write(const Snapshot& snapshot, bool best);
  void end(SaveOutcome outcome);

  const CheckpointWriterConfig config_;
  const Tensors tensors_;
  std::thread thread_;
  std::mutex mutex_;
  std::vector<SaveOutcome> ended_;  // guarded by the mutex
};

}  // namespace ddp
