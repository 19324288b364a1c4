// launch(stream, blocks, threads, kernel, arguments...) launches a kernel; throws Error(Exit::device) if that fails.
// Does nothing for 0 blocks.
//
// Launches may be programmatic (compute capability 9.0): a kernel starts as soon as all blocks of the kernel in front
// of it in its stream have started, which hides the time of the launch. So each kernel begins with
// await_previous_kernel().
#pragma once

#include "device/cuda/check.h"

#include <atomic>
#include <cstdint>

namespace ddp {

// Of the process, which has one GPU. make_cuda_device() sets it.
inline std::atomic<bool> programmatic_launches = false;

template <class... Parameters, class... Arguments>
void launch(cudaStream_t stream, int64_t blocks, int threads, void (*kernel)(Parameters...), Arguments&&... arguments) {
  if (blocks == 0) return;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(blocks));
  config.blockDim = dim3(static_cast<unsigned>(threads));
  config.stream = stream;
  cudaLaunchAttribute programmatic{};
  programmatic.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  programmatic.val.programmaticStreamSerializationAllowed = 1;
  config.attrs = &programmatic;
  config.numAttrs = programmatic_launches ? 1 : 0;
  DDP_CUDA(cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(arguments)...));
}

// The number of blocks of `threads` threads for one thread per item.
constexpr int64_t blocks_for(int64_t count, int threads) { return (count + threads - 1) / threads; }

}  // namespace ddp
