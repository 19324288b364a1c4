// A communicator whose ranks are threads of one process: for fast tests, the thread sanitizer and one-GPU checks.
#pragma once

#include "comm/communicator.h"

#include <memory>
#include <vector>

namespace ddp {

// Returns one communicator for each rank; one thread uses each. Sums are in rank order, so every run gets the same
// bits. Destroy the communicators in any order when no collective is outstanding.
std::vector<std::unique_ptr<Communicator>> make_local_communicators(int size);

}  // namespace ddp
