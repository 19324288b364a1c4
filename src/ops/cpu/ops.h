// The CPU backend: oneDNN, and our own kernels where oneDNN is slow.
#pragma once

#include "device/device.h"
#include "ops/ops.h"
#include "ops/precision.h"

#include <memory>

namespace ddp {

struct CpuOpsConfig {
  int threads = 1;                        // compute threads of this rank, the caller's included
  Precision precision = Precision::fp32;  // fp32, or bf16: activations are then bf16 in memory
  bool winograd = true;                   // Winograd's algorithm for 3x3 convolutions if it is faster
};

// The device outlives the Ops. Throws Error(Exit::usage) for tf32 and for less than one thread. Ops::conv2d throws it
// for bf16 on a processor without AVX-512.
std::unique_ptr<Ops> make_cpu_ops(Device& device, const CpuOpsConfig& config);

}  // namespace ddp
