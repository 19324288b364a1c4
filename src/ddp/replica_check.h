// Checks that values are the same on all ranks, by their hashes. Collective.
#pragma once

#include "comm/communicator.h"

#include <cstdint>
#include <span>
#include <string_view>

namespace ddp {

struct NamedHash {
  std::string_view name;  // of the hashed value
  uint64_t hash;
};

// Both throw CollectiveError(Exit::communication) if hashes differ. The text has the name of the value, the hash of
// each rank, and, if more than half of the ranks agree, the ranks that differ.
void check_same_on_all_ranks(std::span<const NamedHash> mine, Communicator& communicator);
void check_same_on_all_ranks(uint64_t hash, std::string_view what, Communicator& communicator);

}  // namespace ddp
