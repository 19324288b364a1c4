// Rank 0's numbers for everybody.
#pragma once

#include "comm/communicator.h"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace ddp {

// Every rank's values become those of rank 0. Collective and blocking; all ranks bring as many.
void broadcast_host(Communicator& communicator, std::span<int64_t> values);

// The same, of any length at rank 0; the communicator's device is the host.
void broadcast_host(Communicator& communicator, std::string& text);
void broadcast_host(Communicator& communicator, std::vector<float>& values);

}  // namespace ddp
