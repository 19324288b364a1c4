// The CPU backend: oneDNN, and our own kernels where oneDNN is slow.
#pragma once

#include "device/device.h"
#include "ops/cpu/instruction_set.h"
#include "ops/measuring.h"
#include "ops/ops.h"
#include "ops/precision.h"

#include <memory>
#include <string>

namespace ddp {

struct CpuOpsConfig {
  int threads = 1;                                          // compute threads of this rank, the caller's included
  Precision precision = Precision::fp32;                    // fp32, or bf16: activations are then bf16 in memory
  bool winograd = true;                                     // Winograd's algorithm for 3x3 convolutions if it is faster
  InstructionSet instruction_set = best_instruction_set();  // of our kernels
  bool amx = true;                                          // our bf16 kernels for AMX where the processor has it
  int64_t slice_bytes = 8 << 20;                            // Ops::slice_bytes(); 0: whole batches
  Measuring measuring{.seconds = 0};                        // of convolutions; the default follows from the shape
};

// The device outlives the Ops. Throws Error(Exit::usage) for tf32 and for less than one thread, and Error(Exit::device)
// for an instruction set that the processor lacks.
std::unique_ptr<Ops> make_cpu_ops(Device& device, const CpuOpsConfig& config);

// Limits oneDNN: to AVX2 for v3, and not at all for v4. base is AVX, because with SSE4.1 alone oneDNN's convolutions
// prefer formats in which the paths of a residual block do not meet. oneDNN has one limit for the process, so this is
// not a part of CpuOpsConfig. Call it before make_cpu_ops. Throws Error(Exit::device) if the processor lacks the set,
// or if oneDNN refuses.
void limit_dnnl(InstructionSet set);

std::string describe_cpu_ops();  // such as "oneDNN 2.6.3"

}  // namespace ddp
