// The CPU backend: oneDNN, and our own kernels where it is poor.
#pragma once

#include "device/device.h"
#include "ops/ops.h"
#include "ops/precision.h"

#include <memory>

namespace ddp {

struct CpuOpsConfig {
  int threads = 1;                        // of this rank that compute; 1 starts none
  Precision precision = Precision::fp32;  // or bf16: then activations are bf16 in memory; tf32 is not offered
  bool winograd = true;                   // 3x3 convolutions by Winograd's algorithm where it is faster
};

// The device outlives the Ops.
std::unique_ptr<Ops> make_cpu_ops(Device& device, const CpuOpsConfig& config);

}  // namespace ddp
