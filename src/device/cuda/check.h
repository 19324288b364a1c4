// DDP_CUDA(call) checks the result of a CUDA call. On failure it throws Error(Exit::device) with the call, its file and
// line, and CUDA's text.
#pragma once

#include <cuda_runtime.h>

namespace ddp {

void check_cuda(cudaError_t result, const char* call, const char* file, int line);

}  // namespace ddp

#define DDP_CUDA(call) ::ddp::check_cuda((call), #call, __FILE__, __LINE__)
