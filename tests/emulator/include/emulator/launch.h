// Kernel launches. A launch copies the arguments, as CUDA does.
#pragma once

#include "emulator/api.h"

#include <functional>
#include <tuple>
#include <utility>

enum cudaLaunchAttributeID { cudaLaunchAttributeProgrammaticStreamSerialization = 6 };

struct cudaLaunchAttribute {
  cudaLaunchAttributeID id;
  union {
    int programmaticStreamSerializationAllowed;
  } val;
};

struct cudaLaunchConfig_t {
  dim3 gridDim;
  dim3 blockDim;
  size_t dynamicSmemBytes;  // must be 0: the emulator has no dynamic shared memory
  cudaStream_t stream;
  cudaLaunchAttribute* attrs;
  unsigned numAttrs;
};

namespace emulator {

cudaError_t launch(const cudaLaunchConfig_t& config, std::function<void()> thread);

}  // namespace emulator

template <class... Parameters, class... Arguments>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* config, void (*kernel)(Parameters...),
                               Arguments&&... arguments) {
  return emulator::launch(*config, [kernel, copies = std::tuple<Parameters...>(std::forward<Arguments>(arguments)...)] {
    std::apply(kernel, copies);
  });
}

template <class Kernel>
cudaError_t cudaFuncSetAttribute(Kernel*, cudaFuncAttribute, int) {
  return cudaSuccess;
}

template <class Kernel>
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, Kernel*, int threads, size_t) {
  *blocks = 2048 / threads;
  return cudaSuccess;
}
