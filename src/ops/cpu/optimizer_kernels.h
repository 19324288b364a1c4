// The rules of ops/functors.h over contiguous values, compiled for each instruction set, with the same bits from each.
// This header is read by files compiled with wider instruction sets: keep inline functions out of it.
#pragma once

#include "ops/functors.h"

namespace ddp {

struct OptimizerKernels {
  void (*sgd)(const SgdRule& rule, float* w, const float* g, float decay, long count);
  void (*sgd_momentum)(const SgdRule& rule, float* w, const float* g, float* m, float decay, long count);
  void (*adam)(const AdamRule& rule, float* w, const float* g, float* m, float* v, float decay, long count);
  void (*lars)(const LarsRule& rule, float* w, const float* g, float* m, float decay, float rate_factor, long count);
};

// The fastest of this processor.
const OptimizerKernels& optimizer_kernels();

}  // namespace ddp
