#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace ddp {

// Writes the GPU's clock to *nanoseconds, in device memory, in the order of the stream.
void write_clock(cudaStream_t stream, int64_t* nanoseconds);

}  // namespace ddp
