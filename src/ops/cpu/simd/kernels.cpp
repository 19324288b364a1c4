#include "ops/cpu/simd/tables.h"

namespace ddp::DDP_ISA {

const Kernels kKernels = {
    .f32 = {kNormF32, kPoolF32, kElementwiseF32, kLayerNormF32, kAttentionF32, kScaleF32, kDenseF32, kSoftmaxF32},
    .bf16 = {kNormBf16, kPoolBf16, kElementwiseBf16, kLayerNormBf16, kAttentionBf16, kScaleBf16, kDenseBf16,
             kSoftmaxBf16},
    .flat = kFlat,
    .optimizer = kOptimizer,
    .lanes8 = kLanes8,
    .lanes16 = kLanes16,
#ifdef __AVX512F__
    .widest_lanes = 16};
#else
    .widest_lanes = 8};
#endif

}  // namespace ddp::DDP_ISA
