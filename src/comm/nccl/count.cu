#include "comm/nccl/count.h"
#include "device/cuda/launch.h"

#include <atomic>

namespace ddp {
namespace {

using Count = unsigned long long;

__global__ void count_kernel(Count* count, volatile Count* copy) { *copy = atomicAdd(count, Count{1}) + 1; }

}  // namespace

Counter::Counter(Device& device) : count_(device, sizeof(Count)), copy_(device.host_memory(), sizeof(Count)) {
  DDP_CUDA(cudaHostGetDevicePointer(&mapped_, copy_.data(), 0));
}

void Counter::count(cudaStream_t stream) {
  launch(stream, 1, 1, count_kernel, count_.as<Count>(), static_cast<Count*>(mapped_));
}

uint64_t Counter::value() const { return std::atomic_ref(*copy_.as<uint64_t>()).load(std::memory_order_relaxed); }

}  // namespace ddp
