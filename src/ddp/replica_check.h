// Checks that the replicas of all ranks have the same bits. Collective.
#pragma once

#include "comm/communicator.h"

#include <cstdint>
#include <span>
#include <string_view>

namespace ddp {

struct NamedSpan {
  std::string_view name;
  std::span<const float> values;
};

// Both throw CollectiveError(Exit::communication) if hashes differ. The text has the name of the value, the hash of
// each rank, and, if more than half of the ranks agree, the ranks that differ. `what` names the hashed value.
void check_same_on_all_ranks(uint64_t hash, std::string_view what, Communicator& communicator);
void check_replicas(std::span<const NamedSpan> tensors, Communicator& communicator);

}  // namespace ddp
