#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace ddp {

// *nanoseconds becomes the GPU's clock when the stream comes to it.
void write_clock(cudaStream_t stream, int64_t* nanoseconds);

}  // namespace ddp
