#include "device/cuda/check.h"

#include "core/error.h"

namespace ddp {

void check_cuda(cudaError_t result, const char* call, const char* file, int line) {
  if (result == cudaSuccess) [[likely]]
    return;
  cudaGetLastError();  // not again at the next call
  const bool memory = result == cudaErrorMemoryAllocation;
  fail(Exit::device, "{}:{}: {}: {} ({}){}", file, line, call, cudaGetErrorString(result), cudaGetErrorName(result),
       memory ? "; use a smaller --batch-size or more ranks" : "");
}

}  // namespace ddp
