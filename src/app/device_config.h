// Which device computes and how its ranks communicate, as the options say. The factory makes them.
#pragma once

#include "comm/mpi/session.h"
#include "ops/precision.h"

#include <cstdint>
#include <optional>

namespace ddp {

enum class DeviceKind : uint8_t { automatic, cpu, cuda };
enum class TransportKind : uint8_t { automatic, nccl, mpi };

struct DeviceConfig {
  DeviceKind kind = DeviceKind::automatic;
  int threads = 0;                          // of a CPU rank; 0: its share of the cores
  std::optional<Precision> precision = {};  // none: the default of the device
  bool winograd = true;                     // on a CPU, for 3x3 convolutions
  bool deterministic = false;
  bool share_gpu = false;
  bool graphs = true;
  int64_t data_mb = 4096;  // MiB; a larger data set streams to the GPU
};

struct TransportConfig {
  TransportKind kind = TransportKind::automatic;
  Allreduce allreduce = Allreduce::automatic;  // over MPI
  bool nccl_ring = false;                      // only rings; else NCCL chooses
};

}  // namespace ddp
