// Between a replica and what a checkpoint holds of it.
#pragma once

#include "train/checkpoint.h"
#include "train/replica.h"

#include <optional>
#include <string>
#include <vector>

namespace ddp {

// On rank 0 the replica as it is, once the device has come to rest; on the others nothing. Collective. Training state
// is not touched. `updates`: of the running statistics so far.
std::optional<Snapshot> take_snapshot(Replica& replica, const RunState& run, int64_t updates);

// Of all ranks alike: weights, running statistics and the optimizer's state.
void restore(Replica& replica, const Snapshot& snapshot);

std::vector<std::string> optimizer_state_names(const Replica& replica);

}  // namespace ddp
