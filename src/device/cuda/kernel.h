// What kernels begin with, and the clock of Device::timestamp() in device code.
#pragma once

#include <cuda_runtime.h>

#ifndef __CUDACC__
#include <chrono>
#endif
#include <cstdint>

namespace ddp {

// The first statement of each kernel: lets the next kernel start, and waits until the previous one has ended, with all
// kernels before it, and memory has its results.
inline __device__ void await_previous_kernel() {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
  cudaTriggerProgrammaticLaunchCompletion();
  cudaGridDependencySynchronize();
#endif
}

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
