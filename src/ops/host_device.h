// DDP_HOST_DEVICE marks what both backends compile. Always inlined on the host, so that a file compiled for one
// instruction set never lends its code to another.
#pragma once

#ifdef __CUDACC__
#define DDP_HOST_DEVICE __host__ __device__ __forceinline__
#else
#define DDP_HOST_DEVICE inline __attribute__((always_inline))
#endif
