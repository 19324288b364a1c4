#include "device/cuda/handles.h"

namespace ddp {

CudaStream make_stream(int priority) {
  cudaStream_t stream = nullptr;
  DDP_CUDA(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, priority));
  return CudaStream(stream);
}

int greatest_stream_priority() {
  int least = 0, greatest = 0;
  DDP_CUDA(cudaDeviceGetStreamPriorityRange(&least, &greatest));
  return greatest;
}

CudaEvent make_event() {
  cudaEvent_t event = nullptr;
  DDP_CUDA(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  return CudaEvent(event);
}

void order_after(cudaStream_t later, cudaStream_t earlier, cudaEvent_t event) {
  DDP_CUDA(cudaEventRecord(event, earlier));
  DDP_CUDA(cudaStreamWaitEvent(later, event, 0));
}

}  // namespace ddp
