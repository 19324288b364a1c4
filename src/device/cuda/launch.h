// launch(stream, blocks, threads, kernel, arguments...) launches a kernel; throws Error(Exit::device) if that fails.
// Does nothing for 0 blocks.
#pragma once

#include "device/cuda/check.h"

#include <cstdint>

namespace ddp {

template <class... Parameters, class... Arguments>
void launch(cudaStream_t stream, int64_t blocks, int threads, void (*kernel)(Parameters...), Arguments&&... arguments) {
  if (blocks == 0) return;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(blocks));
  config.blockDim = dim3(static_cast<unsigned>(threads));
  config.stream = stream;
  DDP_CUDA(cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(arguments)...));
}

// The number of blocks of `threads` threads for one thread per item.
constexpr int64_t blocks_for(int64_t count, int threads) { return (count + threads - 1) / threads; }

}  // namespace ddp
