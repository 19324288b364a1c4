// The number of computing threads of a rank.
#pragma once

#include "comm/communicator.h"

#include <string>

namespace ddp {

// Returns `asked` if above 0, else this rank's share of its cores, which it shares with the ranks on the same host with
// the same CPU affinity. Collective.
int choose_threads(int asked, Communicator& world, const std::string& host);

}  // namespace ddp
