// Replicas hold the same bits on every rank; these say so, or who differs. Collective.
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

// Throw CollectiveError(Exit::communication) that names what differs, with the hash of each rank, and where more than
// half of the ranks agree, those that do not.
void check_same_on_all_ranks(uint64_t hash, std::string_view what, Communicator& communicator);
void check_replicas(std::span<const NamedSpan> tensors, Communicator& communicator);

}  // namespace ddp
