#include "ops/cpu/optimizer_kernels.h"

#include "ops/cpu/instruction_set.h"

namespace ddp {

extern const OptimizerKernels kOptimizerKernelsBase;

#ifdef DDP_X86_KERNELS
extern const OptimizerKernels kOptimizerKernelsV3, kOptimizerKernelsV4;

const OptimizerKernels& optimizer_kernels() {
  switch (instruction_set()) {
    case InstructionSet::v4: return kOptimizerKernelsV4;
    case InstructionSet::v3: return kOptimizerKernelsV3;
    case InstructionSet::base: break;
  }
  return kOptimizerKernelsBase;
}
#else
const OptimizerKernels& optimizer_kernels() { return kOptimizerKernelsBase; }
#endif

}  // namespace ddp
