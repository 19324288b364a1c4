// Owners of CUDA handles, and the stream of a device. Only backend folders include this.
#pragma once

#include "device/cuda/check.h"
#include "device/device.h"

#include <memory>

namespace ddp {

// Deleter for a C handle. Ignores the return code: a destructor cannot act on it.
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

// All functions throw Error(Exit::device) if CUDA fails.
CudaStream make_stream(int priority);
int greatest_stream_priority();
CudaEvent make_event();  // for ordering only: it takes no timestamps

// The stream on which the work of a CUDA device runs in order. Throws Error(Exit::internal) for any other device.
cudaStream_t compute_stream(Device& device);

// Work of `stream` that no work of the device waits for. The device orders its stream after it where the host
// synchronizes or downloads, and at the end of each recording. `stream` outlives that, or is forgotten before it ends.
void join_later(Device& device, cudaStream_t stream);
void forget(Device& device, cudaStream_t stream);

// Orders the work issued to `later` from now on after the work issued to `earlier` so far. `event` is recorded. Both
// streams may be in capture.
void order_after(cudaStream_t later, cudaStream_t earlier, cudaEvent_t event);

}  // namespace ddp
