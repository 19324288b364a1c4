// Facts about a rank and its host: plain data that all ranks exchange. The checks judge them.
#pragma once

#include "comm/mpi/launcher.h"
#include "core/library_version.h"

#include <cstdint>
#include <string>
#include <vector>

namespace ddp::doctor {

struct Interface {
  std::string name;
  bool up = false;                     // up and running
  std::vector<std::string> addresses;  // such as "10.0.0.1/24"; without link-local IPv6 addresses
};

// The folder of MPI's shared memory on a host; see Open MPI's btl_vader_backing_directory and btl_vader_segment_size.
struct SharedMemory {
  std::string folder;
  bool usable = false;                        // the folder exists and can be written
  int64_t bytes = 0, free = 0, per_rank = 0;  // size of the file system, free bytes, bytes of a rank's segment
};

struct HostFacts {
  std::vector<int> cores;  // cores of the control group, else all online cores
  std::string cpu_max;     // limit of the container; see cpu_limit_of_container()
  SharedMemory memory;
  int64_t locked_memory = -1;  // limit of locked memory in bytes; -1: no limit
  bool rdma = false;           // the host has RDMA adapters
  bool container = false;
  int nvidia_devices = 0;  // NVIDIA devices on the PCI bus, with any driver or none
  std::vector<Interface> interfaces;
};

struct GpuFacts {
  int visible = 0;  // number of GPUs that this rank sees
  std::string why;  // the reason why it sees none
  std::string name, bus_id, uuid;
  LibraryVersion::Number driver{};
  std::vector<LibraryVersion> libraries;
  std::vector<std::string> out_of_reach;  // bus ids of visible GPUs without peer access to this rank's GPU
};

struct RankFacts {
  std::string host;
  int local_rank = 0;
  int threads = 0;         // --threads; 0: its share of the cores
  std::vector<int> cores;  // CPU affinity of this rank
  Environment environment;
  HostFacts here;  // facts of its host; empty except on local rank 0
  GpuFacts gpu;
};

HostFacts facts_of_host(const Environment& environment);

// `threads`: --threads. `gpus`: whether to query GPUs. If a query fails, gpu.visible is 0 and gpu.why has the
// reason.
RankFacts facts_of_rank(int threads, const std::string& host, int local_rank, bool gpus);

// As text for a gather, and back.
std::string to_text(const RankFacts& facts);
RankFacts facts_from(const std::string& text);

}  // namespace ddp::doctor
