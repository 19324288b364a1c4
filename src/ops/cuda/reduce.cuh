// Sums over the threads of a warp, in a fixed order.
#pragma once

#include <cuda_runtime.h>

namespace ddp {

constexpr int kWarp = 32;

// Every thread gets the sum over its group of `lanes` neighbours, a power of two up to a warp. All threads of the warp
// take part.
__device__ inline float sum_over_lanes(float value, int lanes) {
  for (int offset = lanes / 2; offset > 0; offset /= 2) value += __shfl_xor_sync(0xffffffffu, value, offset);
  return value;
}

}  // namespace ddp
