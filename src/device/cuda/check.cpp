#include "device/cuda/check.h"

#include "core/error.h"

namespace ddp {
namespace {

const char* advice(cudaError_t result) {
  switch (result) {
    case cudaErrorIllegalAddress:
    case cudaErrorMisalignedAddress:
    case cudaErrorIllegalInstruction:
    case cudaErrorLaunchFailure:
      return "A kernel failed, here or earlier: start with --no-graph under `compute-sanitizer`, which names it";
    default: return "The GPU or its driver failed: see `nvidia-smi` and the system's log";
  }
}

}  // namespace

void check_cuda(cudaError_t result, const char* call, const char* file, int line) {
  if (result == cudaSuccess) [[likely]]
    return;
  cudaGetLastError();  // clears the error: the next call would report it again
  fail(Exit::device, "{}:{}: {}: {} ({}). {}", file, line, call, cudaGetErrorString(result), cudaGetErrorName(result),
       advice(result));
}

}  // namespace ddp
