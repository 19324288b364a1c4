// The update rules of ops/functors.h over contiguous values, compiled for each instruction set. All versions give the
// same bits. Files for different instruction sets include this header: do not define inline functions in it.
#pragma once

#include "ops/functors.h"

namespace ddp {

struct OptimizerKernels {
  void (*sgd)(const SgdRule& rule, float* w, const float* g, float decay, long count);
  void (*sgd_momentum)(const SgdRule& rule, float* w, const float* g, float* m, float decay, long count);
  void (*adam)(const AdamRule& rule, float* w, const float* g, float* m, float* v, float decay, long count);
  void (*lars)(const LarsRule& rule, float* w, const float* g, float* m, float decay, float rate_factor, long count);
};

// The fastest version for this processor.
const OptimizerKernels& optimizer_kernels();

}  // namespace ddp
