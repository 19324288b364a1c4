// Chooses the device and the transport of the run, and the GPU of a rank. Pure functions.
#pragma once

#include "app/machine/device_config.h"

#include <span>
#include <string>
#include <vector>

namespace ddp {

// Returns cpu or cuda. `asked`: --device. `gpus[r]`: the number of GPUs that rank r sees. `why`: the reason why this
// rank sees none. Throws Error(Exit::device) if `asked` is cuda and a rank has no GPU, or if some ranks have a GPU and
// others do not, unless `asked` is cpu.
DeviceKind choose_device(DeviceKind asked, std::span<const int> gpus, const std::string& why);

// Returns nccl or mpi: NCCL between GPUs, unless --transport asks for MPI, and MPI between CPU ranks.
TransportKind choose_transport(TransportKind asked, bool on_gpus);

// The GPU's index for a rank that sees `visible` > 0 GPUs: its local rank; 0 if the launcher shows each rank only
// its own GPU. Throws Error(Exit::device) if a host has more ranks than GPUs and `share` is false.
int choose_gpu(int local_rank, int visible, bool share);

struct UnfitOption {
  const char* name;
  std::string refusal;  // "--threads is for CPUs; this run computes on GPUs"
};

// The options that are not at their defaults and have no meaning on `device`, which is cpu or cuda.
std::vector<UnfitOption> unfit_options(const DeviceConfig& config, const TransportConfig& transport, DeviceKind device);

struct RankGpu {
  std::string host, bus_id, uuid;
};

// Throws Error(Exit::device) that names the two ranks if two ranks have the same GPU. `ranks` is ordered by rank.
void require_distinct_gpus(std::span<const RankGpu> ranks);

}  // namespace ddp
