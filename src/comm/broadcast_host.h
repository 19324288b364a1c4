// Broadcasts of host values from rank 0.
#pragma once

#include "comm/communicator.h"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace ddp {

// Copies rank 0's values to every rank. Collective and blocking; all ranks pass the same count.
void broadcast_host(Communicator& communicator, std::span<int64_t> values);
void broadcast_host(Communicator& communicator, std::span<double> values);  // finite ones

// As above, and resizes the value to rank 0's length. The device of the communicator must be the host.
void broadcast_host(Communicator& communicator, std::string& text);
void broadcast_host(Communicator& communicator, std::vector<float>& values);

}  // namespace ddp
