// Copies a replica into a snapshot and back.
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
  Buffer weights_, statistics_;
  std::vector<Buffer> optimizer_;
};

// Loads weights, running statistics and optimizer state. All ranks give the same snapshot.
void restore(Replica& replica, const Snapshot& snapshot);

std::vector<std::string> optimizer_state_names(const Replica& replica);

}  // namespace ddp
