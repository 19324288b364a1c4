// How many threads a rank computes with.
#pragma once

#include "comm/communicator.h"

#include <string>

namespace ddp {

// Of `cores`, those that a container's limit leaves, rounded up: `cpu_max` is what the kernel's cgroup file cpu.max
// says, "max 100000" or "150000 100000" (microseconds in each period).
int cores_within_limit(int cores, const std::string& cpu_max);

// `asked` threads; where that is 0, a share of the `usable` cores that `ranks` have in common.
int share_of_cores(int asked, int usable, int ranks);

// The threads of this rank, which shares its cores with the ranks that have the same host and the same cores.
// Collective.
int choose_threads(int asked, Communicator& world, const std::string& host);

}  // namespace ddp
