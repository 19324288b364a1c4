// Ranks as threads of one process, for fast tests, the thread sanitizer and one-GPU checks.
#pragma once

#include "comm/communicator.h"

#include <memory>
#include <vector>

namespace ddp {

// One communicator for each rank, each to be used by one thread. Sums are in rank order, so results are the same bits
// on every run. They may be destroyed in any order once no collective is outstanding.
std::vector<std::unique_ptr<Communicator>> make_local_communicators(int size);

}  // namespace ddp
