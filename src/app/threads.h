// How many threads a rank computes with.
#pragma once

#include "comm/communicator.h"

#include <string>

namespace ddp {

// The threads of this rank, which shares its cores with the ranks that have the same host and the same cores.
// Collective.
int choose_threads(int asked, Communicator& world, const std::string& host);

}  // namespace ddp
