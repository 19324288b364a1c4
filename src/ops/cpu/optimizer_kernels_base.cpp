#include "ops/cpu/optimizer_kernels.inc"

namespace ddp {
extern const OptimizerKernels kOptimizerKernelsBase;
const OptimizerKernels kOptimizerKernelsBase = kKernels;
}  // namespace ddp
