// Saves the run at a step: takes a snapshot on all ranks, gives it to rank 0's writer, and reports what reached the
// disk. The trainer decides when to save.
#pragma once

#include "checkpoint/run_state.h"
#include "checkpoint/writer.h"
#include "core/stopwatch.h"
#include "health/phase_tracker.h"
#include "train/observers/run_observer.h"
#include "train/saving/snapshot.h"
#include "train/step/replica.h"

#include <cstdint>
#include <filesystem>

namespace ddp {

class Saver {
 public:
  // `writer`: of rank 0; null on other ranks, or to save nothing. The arguments outlive the saver.
  Saver(Replica& replica, RunObserver& reporter, PhaseTracker& phases, CheckpointWriter* writer)
      : replica_(replica), reporter_(reporter), phases_(phases), writer_(writer), buffers_(replica) {}
  ~Saver();  // waits for the save in progress, which reads the buffers
  Saver(const Saver&) = delete;
  Saver& operator=(const Saver&) = delete;

  // The writer's folder has a checkpoint of `state`; rank 0 gives its path.
  void set_saved(const RunState& state, const std::filesystem::path& checkpoint);

  bool saved(const RunState& state) const;  // whether the last save was at this step, with the same evaluation or none
  double seconds() const { return since_save_.seconds(); }     // since the last save
  const std::filesystem::path& path() const { return path_; }  // rank 0: last checkpoint on the disk; empty: none
  int64_t step() const { return step_; }                       // rank 0: step of path(); -1: none

  bool busy() const { return writer_ && writer_->busy(); }  // rank 0: whether a save is in progress; others: false

  // Starts a save of `state`; waits for the save in progress first. `updates`: updates of the running statistics so
  // far. If the save of the best accuracy fails, the next save counts as best. Collective.
  void save(const RunState& state, int64_t updates, bool best);

  // Waits for the disk. Returns on all ranks whether `step` is on the disk; if not, saved() is false. Collective.
  bool finish(int64_t step);

  void report_finished();  // to the reporter

 private:
  Replica& replica_;
  RunObserver& reporter_;
  PhaseTracker& phases_;
  CheckpointWriter* const writer_;
  SnapshotBuffers buffers_;
  RunState saved_{.step = -1};  // of the last save
  int64_t step_ = -1;
  std::filesystem::path path_;
  // Rank 0: whether the save in progress is the best one; whether such a save has failed.
  bool saving_best_ = false, best_unsaved_ = false;
  Stopwatch since_save_;
};

}  // namespace ddp
