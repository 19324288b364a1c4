// Rank 0's numbers for everybody.
#pragma once

#include "comm/communicator.h"

#include <cstdint>
#include <span>

namespace ddp {

// Every rank's values become those of rank 0. Collective and blocking; all ranks bring as many.
void broadcast_host(Communicator& communicator, std::span<int64_t> values);

}  // namespace ddp
