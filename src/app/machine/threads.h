// The numbers of threads of a rank.
#pragma once

#include "comm/communicator.h"

#include <string>

namespace ddp {

// Threads that compute: `asked` if above 0, else this rank's share of its cores, which it shares with the ranks on the
// same host with the same CPU affinity. Collective.
int choose_threads(int asked, Communicator& world, const std::string& host);

// Threads that read pictures: `asked` if above 0, else as choose_threads(), at most 16. Collective.
int choose_workers(int asked, Communicator& world, const std::string& host);

}  // namespace ddp
