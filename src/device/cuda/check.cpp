#include "device/cuda/check.h"

#include "core/error.h"

namespace ddp {

void check_cuda(cudaError_t result, const char* call, const char* file, int line) {
  if (result == cudaSuccess) [[likely]]
    return;
  cudaGetLastError();  // clears the error: the next call would report it again
  fail(Exit::device, "{}:{}: {}: {} ({}). The GPU or its driver failed: see `nvidia-smi` and the system's log", file,
       line, call, cudaGetErrorString(result), cudaGetErrorName(result));
}

}  // namespace ddp
