// The inner loops of the CPU's ops. They are compiled once for each instruction set, and each set has one table.
//
// The linker keeps one copy of a function that several objects define, so a copy for AVX-512 could serve a CPU without
// it. The files of this folder prevent this: their functions are in anonymous namespaces, their tables are in the
// namespace of the set (tables.h), and their headers define only functions that are in anonymous namespaces too or that
// are always inlined (ops/host_device.h). The files winograd_*.cpp, norm_bf16.cpp and amx_bf16.cpp are compiled for
// AVX-512 only, and their tables have names of their own (tile_kernels.h, activation_kernels.h). The test
// ops.kernel_symbols checks the objects.
#pragma once

#include "core/dtype.h"
#include "ops/cpu/instruction_set.h"
#include "ops/cpu/simd/activation_kernels.h"
#include "ops/cpu/simd/attention_kernels.h"
#include "ops/cpu/simd/dense_kernels.h"
#include "ops/cpu/simd/lane_kernels.h"
#include "ops/cpu/simd/layer_norm_kernels.h"
#include "ops/cpu/simd/softmax_kernels.h"
#include "ops/functors.h"

namespace ddp {

// For activations of one type in memory.
struct ActivationKernels {
  const NormKernels& norm;
  const PoolKernels& pool;
  const ElementwiseKernels& elementwise;
  const LayerNormKernels& layer_norm;
  const AttentionKernels& attention;
  const ScaleKernels& scale;
  const DenseKernels& dense;
  const SoftmaxKernels& softmax;
};

// For flat f32 buffers.
struct FlatKernels {
  void (*add)(const float* from, float* to, long count);
  void (*to_bf16)(const float* from, void* to, long count);
  void (*from_bf16)(const void* from, float* to, long count);
  double (*sum_of_squares)(const float* values, long count);  // not finite if one of the values is not
  bool (*any_nonfinite)(const float* values, long count);
};

// The update rules of ops/functors.h. All sets give the same bits.
struct OptimizerKernels {
  void (*sgd)(const SgdRule& rule, float* w, const float* g, float decay, long count);
  void (*sgd_momentum)(const SgdRule& rule, float* w, const float* g, float* m, float decay, long count);
  void (*adam)(const AdamRule& rule, float* w, const float* g, float* m, float* v, float decay, long count);
  void (*lars)(const LarsRule& rule, float* w, const float* g, float* m, float decay, float rate_factor, long count);
};

struct Kernels {
  ActivationKernels f32, bf16;
  const FlatKernels& flat;
  const OptimizerKernels& optimizer;
  const LaneKernels &lanes8, &lanes16;
  int widest_lanes;  // largest number of lanes that fit one vector register; in `base`, two registers

  const ActivationKernels& activations(DType type) const;
  const LaneKernels& lanes(int count) const;  // 8 or 16
};

// The kernels of `set`. Throws Error(Exit::device) if the processor lacks it.
const Kernels& kernels_of(InstructionSet set);

}  // namespace ddp
