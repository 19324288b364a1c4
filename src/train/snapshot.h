// Copies a replica into a snapshot and back.
#pragma once

#include "checkpoint/checkpoint.h"
#include "train/replica.h"

#include <optional>
#include <string>
#include <vector>

namespace ddp {

// Returns the replica's state on rank 0, nothing on other ranks. Waits until the device is idle; changes nothing.
// Collective. `updates`: updates of the running statistics so far.
std::optional<Snapshot> take_snapshot(Replica& replica, const RunState& run, int64_t updates);

// Loads weights, running statistics and optimizer state. All ranks give the same snapshot.
void restore(Replica& replica, const Snapshot& snapshot);

std::vector<std::string> optimizer_state_names(const Replica& replica);

}  // namespace ddp
