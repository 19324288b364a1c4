// How many threads a rank computes with, and whether the ranks of a host have cores to themselves.
#pragma once

#include "comm/communicator.h"

#include <string>

namespace ddp {

// Of `cores`, those that a container's limit leaves, rounded up: `cpu_max` is what the kernel's cgroup file cpu.max
// says, "max 100000" or "150000 100000" (microseconds in each period).
int cores_within_limit(int cores, const std::string& cpu_max);

struct Threads {
  int count = 1;
  std::string warning;  // on rank 0, where ranks must share cores
};

// `asked` threads; where that is 0, the cores that this rank may use, divided among the ranks that have the same host
// and the same cores. Collective.
Threads choose_threads(int asked, Communicator& world, const std::string& host);

}  // namespace ddp
