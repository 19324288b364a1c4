// DDP_HOST_DEVICE marks functions that both backends compile. On the host they are always inlined: the linker must not
// use a copy that was compiled for another instruction set.
#pragma once

#ifdef __CUDACC__
#define DDP_HOST_DEVICE __host__ __device__ __forceinline__
#else
#define DDP_HOST_DEVICE inline __attribute__((always_inline))
#endif
