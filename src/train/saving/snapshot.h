// Copies a replica into a snapshot and back. The model of a snapshot has the statistics for evaluations: with
// `bn_stats_samples` above 0 the recomputed ones (Replica::eval_stats), else the running averages.
#pragma once

#include "checkpoint/checkpoint.h"
#include "device/buffer.h"
#include "train/step/replica.h"

#include <optional>
#include <string>
#include <vector>

namespace ddp {

// Host memory that all snapshots of a replica use, pinned for a GPU; allocated by the first one. The replica outlives
// it.
class SnapshotBuffers {
 public:
  explicit SnapshotBuffers(Replica& replica) : replica_(replica) {}

  // Returns the replica's state on rank 0, nothing on other ranks; it stays until the next call. Waits until the device
  // is idle; changes nothing. Collective. `updates`: updates of the running statistics so far.
  std::optional<SnapshotView> take(const RunState& run, int64_t updates);

 private:
  Replica& replica_;
  Buffer weights_, eval_stats_, running_stats_;
  Buffer average_weights_, average_stats_;
  std::vector<Buffer> optimizer_;
  std::vector<Buffer> residuals_;  // of each host
};

// Loads weights, both statistics of the batch norms, the average, optimizer state and residuals. Collective. All ranks
// give the same snapshot.
void restore(Replica& replica, const Snapshot& snapshot);

std::vector<std::string> optimizer_state_names(const Replica& replica);

}  // namespace ddp
