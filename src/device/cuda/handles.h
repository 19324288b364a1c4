// Owners of CUDA's handles, and the stream of a device. For the backend folders only.
#pragma once

#include "device/cuda/check.h"
#include "device/device.h"

#include <memory>

namespace ddp {

// Deleter for a C handle; what destroying returns cannot be acted on.
template <auto destroy>
struct Destroy {
  template <class T>
  void operator()(T* handle) const {
    (void)destroy(handle);
  }
};

using CudaStream = std::unique_ptr<CUstream_st, Destroy<cudaStreamDestroy>>;
using CudaEvent = std::unique_ptr<CUevent_st, Destroy<cudaEventDestroy>>;
using CudaGraph = std::unique_ptr<CUgraph_st, Destroy<cudaGraphDestroy>>;
using CudaGraphExec = std::unique_ptr<CUgraphExec_st, Destroy<cudaGraphExecDestroy>>;

CudaStream make_stream(int priority);
int greatest_stream_priority();
CudaEvent make_event();  // for ordering only: it takes no time stamps

// The stream on which all work of a CUDA device runs in order. Throws Error(Exit::internal) for any other device.
cudaStream_t compute_stream(Device& device);

// Orders what is issued to `later` from now on after what has been issued to `earlier` so far. Both may be captured.
void order_after(cudaStream_t later, cudaStream_t earlier, cudaEvent_t event);

}  // namespace ddp
