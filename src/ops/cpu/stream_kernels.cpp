#include "ops/cpu/stream_kernels.h"

#include "ops/cpu/instruction_set.h"

namespace ddp {

extern const StreamKernels kStreamKernelsBase;

#ifdef DDP_X86_KERNELS
extern const StreamKernels kStreamKernelsV3, kStreamKernelsV4;

const StreamKernels& stream_kernels() {
  switch (instruction_set()) {
    case InstructionSet::v4: return kStreamKernelsV4;
    case InstructionSet::v3: return kStreamKernelsV3;
    case InstructionSet::base: break;
  }
  return kStreamKernelsBase;
}
#else
const StreamKernels& stream_kernels() { return kStreamKernelsBase; }
#endif

const ActivationKernels& activation_kernels(DType type) {
  return type == DType::bf16 ? stream_kernels().bf16 : stream_kernels().f32;
}

}  // namespace ddp
