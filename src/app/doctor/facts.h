// What there is to know about a rank and its host: plain data that ranks tell each other, gathered without judging it.
#pragma once

#include "comm/mpi/launcher.h"
#include "core/library_version.h"

#include <cstdint>
#include <string>
#include <vector>

namespace ddp::doctor {

struct Interface {
  std::string name;
  bool up = false;                     // and running
  std::vector<std::string> addresses;  // "10.0.0.1/24"; those of one link only are left out
};

// Where the ranks of a host meet; see Open MPI's btl_vader_backing_directory and btl_vader_segment_size.
struct SharedMemory {
  std::string folder;
  bool usable = false;  // a folder that can be written
  int64_t bytes = 0, free = 0, per_rank = 0;
};

struct HostFacts {
  std::vector<int> cores;  // that processes may be given here
  std::string cpu_max;     // a container's limit, as the kernel says it
  SharedMemory memory;
  int64_t locked_memory = -1;  // bytes that may be; -1: no limit
  bool rdma = false;           // there are adapters for it
  bool container = false;
  int nvidia_devices = 0;  // on the bus, whatever drives them
  std::vector<Interface> interfaces;
};

struct GpuFacts {
  int visible = 0;  // how many
  std::string why;  // none is
  std::string name, bus_id, uuid;
  LibraryVersion::Number driver{};
  std::vector<LibraryVersion> libraries;
  std::vector<std::string> out_of_reach;  // bus ids of visible GPUs
};

struct RankFacts {
  std::string host;
  int local_rank = 0;
  int threads = 0;         // asked for; 0: its share
  std::vector<int> cores;  // that this rank is bound to
  Environment environment;
  HostFacts here;  // of the first rank of each host only
  GpuFacts gpu;
};

HostFacts facts_of_host(const Environment& environment);

// `threads`: --threads. `gpus`: whether to look for GPUs; `why` says why one cannot be asked.
RankFacts facts_of_rank(int threads, const std::string& host, int local_rank, bool gpus);

std::string to_text(const RankFacts& facts);
RankFacts facts_from(const std::string& text);

}  // namespace ddp::doctor
