// The clock of Device::timestamp() in device code.
#pragma once

#ifndef __CUDACC__
#include <chrono>
#endif
#include <cstdint>

namespace ddp {

inline __device__ int64_t device_clock_ns() {
  int64_t nanoseconds = 0;
#ifdef __CUDA_ARCH__
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(nanoseconds));
#elif !defined(__CUDACC__)
  nanoseconds = std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
#endif
  return nanoseconds;
}

}  // namespace ddp
