// DDP_CUDA(call): throws Error(Exit::device) with the call, its place and CUDA's own text unless it succeeded.
#pragma once

#include <cuda_runtime.h>

namespace ddp {

void check_cuda(cudaError_t result, const char* call, const char* file, int line);

}  // namespace ddp

#define DDP_CUDA(call) ::ddp::check_cuda((call), #call, __FILE__, __LINE__)
