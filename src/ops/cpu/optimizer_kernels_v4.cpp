#include "ops/cpu/optimizer_kernels.inc"

namespace ddp {
extern const OptimizerKernels kOptimizerKernelsV4;
const OptimizerKernels kOptimizerKernelsV4 = kKernels;
}  // namespace ddp
