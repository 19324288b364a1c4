#include "comm/nccl/count.h"
#include "device/cuda/kernel.h"
#include "device/cuda/launch.h"

#include <atomic>

namespace ddp {
namespace {

using Count = unsigned long long;

__global__ void count_kernel(Count* count, volatile Count* copy, volatile int64_t* times, Count kept, Count more) {
  await_previous_kernel();
  const Count n = atomicAdd(count, more) + more;
  if (kept > 0) {
    const int64_t now = device_clock_ns();
    for (Count i = 0; i < more; ++i) times[(n - i) % kept] = now;
    __threadfence_system();  // the host sees the time before the count
  }
  *copy = n;
}

}  // namespace

Counter::Counter(Device& device)
    : device_(device), count_(device, sizeof(Count)), copy_(device.host_memory(), sizeof(Count)) {
  DDP_CUDA(cudaHostGetDevicePointer(&mapped_, copy_.data(), 0));
}

void Counter::record_times(uint64_t kept) {
  if (kept_ > 0) return;
  times_ = Buffer(device_.host_memory(), kept * sizeof(int64_t));
  DDP_CUDA(cudaHostGetDevicePointer(&mapped_times_, times_.data(), 0));
  kept_ = kept;
  first_timed_ = value() + 1;
}

void Counter::count(cudaStream_t stream, uint64_t n) {
  launch(stream, 1, 1, count_kernel, count_.as<Count>(), static_cast<Count*>(mapped_),
         static_cast<int64_t*>(mapped_times_), static_cast<Count>(kept_), static_cast<Count>(n));
}

uint64_t Counter::value() const { return std::atomic_ref(*copy_.as<uint64_t>()).load(std::memory_order_acquire); }

std::optional<int64_t> Counter::time_of(uint64_t n) const {
  const uint64_t now = value();
  if (kept_ == 0 || n < first_timed_ || n > now || n + kept_ <= now) return std::nullopt;
  return std::atomic_ref(times_.as<int64_t>()[n % kept_]).load(std::memory_order_relaxed);
}

}  // namespace ddp
