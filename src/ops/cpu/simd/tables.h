// The tables of one instruction set. CMake compiles the kernel files once for each set, with its name as DDP_ISA.
#pragma once

#include "ops/cpu/simd/kernels.h"

namespace ddp::DDP_ISA {

extern const NormKernels kNormF32, kNormBf16;
extern const PoolKernels kPoolF32, kPoolBf16;
extern const ElementwiseKernels kElementwiseF32, kElementwiseBf16;
extern const ActivationFunctions kActivationFunctions;  // for the other files of this folder
extern const LayerNormKernels kLayerNormF32, kLayerNormBf16;
extern const AttentionKernels kAttentionF32, kAttentionBf16;
extern const ScaleKernels kScaleF32, kScaleBf16;
extern const DenseKernels kDenseF32, kDenseBf16;
extern const SoftmaxKernels kSoftmaxF32, kSoftmaxBf16;
extern const FlatKernels kFlat;
extern const OptimizerKernels kOptimizer;
extern const LaneKernels kLanes8, kLanes16;

extern const Kernels kKernels;  // all of these

}  // namespace ddp::DDP_ISA
