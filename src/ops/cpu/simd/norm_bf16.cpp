#include "ops/cpu/simd/norm_passes.h"

namespace ddp {

const NormKernels kNormRounded = DDP_ISA::kNorm<uint16_t>;

}  // namespace ddp
