#include "ops/cpu/optimizer_kernels.inc"

namespace ddp {
extern const OptimizerKernels kOptimizerKernelsV3;
const OptimizerKernels kOptimizerKernelsV3 = kKernels;
}  // namespace ddp
