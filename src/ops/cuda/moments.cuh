// Mean and variance of a channel from its sums, as ops/batch_norm.h defines them.
#pragma once

#include <cuda_runtime.h>

namespace ddp {

struct Moments {
  float mean, variance;  // over the count
};

// The variance is a difference, which rounding may make negative.
__device__ inline Moments moments_of(float center, float s1, float s2, float count) {
  const float offset = s1 / count;
  return {center + offset, max(s2 / count - offset * offset, 0.0f)};
}

}  // namespace ddp
