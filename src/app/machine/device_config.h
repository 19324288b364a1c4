// The requested device and transport. app/machine/factory.h makes them.
#pragma once

#include "comm/mpi/session.h"
#include "ops/cpu/instruction_set.h"
#include "ops/precision.h"

#include <cstdint>
#include <optional>
#include <string>

namespace ddp {

enum class DeviceKind : uint8_t { automatic, cpu, cuda };
enum class TransportKind : uint8_t { automatic, nccl, mpi };

struct DeviceConfig {
  DeviceKind kind = DeviceKind::automatic;
  int threads = 0;                             // computing threads of a CPU rank; 0: its share of the cores
  std::optional<Precision> precision = {};     // none: the device's default
  bool winograd = true;                        // CPU: Winograd's algorithm for 3x3 convolutions
  std::optional<InstructionSet> cpu_isa = {};  // CPU; none: the largest set of the processor
  bool deterministic = false;
  bool share_gpu = false;
  bool graphs = true;
  bool programmatic = false;                  // launches of kernels
  std::optional<double> engine_seconds = {};  // for measurements of engines at the start; none: the device's default
  std::string engine_file = {};               // app/machine/engine_file.h; empty: none
  int64_t data_mb = 4096;                     // size limit of a data set on the GPU in MiB; a larger one is streamed
};

struct TransportConfig {
  TransportKind kind = TransportKind::automatic;
  Allreduce allreduce = Allreduce::automatic;  // algorithm over MPI
  bool nccl_ring = false;                      // false: NCCL chooses the algorithm
};

}  // namespace ddp
