#include "ops/cpu/simd/norm_passes.h"

namespace ddp::DDP_ISA {

const NormKernels kNormF32 = kNorm<float>, kNormBf16 = kNorm<uint16_t>;

}  // namespace ddp::DDP_ISA
