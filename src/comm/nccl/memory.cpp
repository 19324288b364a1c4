#include "comm/nccl/memory.h"

#include "comm/nccl/poll.h"
#include "core/error.h"

#include <algorithm>
#include <exception>

namespace ddp {

void* NcclMemory::allocate(size_t bytes) {
  const size_t size = std::max<size_t>(bytes, 1);
  void* memory = nullptr;
  if (const auto why = describe_failure(ncclMemAlloc(&memory, size), nullptr))
    fail(Exit::device,
         "NCCL cannot allocate {} bytes on the GPU: {}; use a smaller --batch-size or more ranks, and if there is "
         "memory "
         "enough, set NCCL_CUMEM_ENABLE=0",
         bytes, *why);
  void*& registration = registrations_[memory];
  try {
    DDP_CUDA(cudaMemsetAsync(memory, 0, size, streams_.front()));
    DDP_CUDA(cudaStreamSynchronize(streams_.front()));
    nccl_.run("registering memory",
              [&](ncclComm_t comm) { return ncclCommRegister(comm, memory, size, &registration); });
  } catch (...) {
    registrations_.erase(memory);
    (void)ncclMemFree(memory);
    throw;
  }
  return memory;
}

void NcclMemory::deallocate(void* memory) noexcept {
  const auto found = registrations_.find(memory);
  if (found == registrations_.end() || !idle_within(kGoodbye, streams_)) return;  // lost rather than pulled away
  try {
    if (found->second)  // null where NCCL saw no use in it
      nccl_.run("deregistering memory", [&](ncclComm_t comm) { return ncclCommDeregister(comm, found->second); });
  } catch (const std::exception&) {  // a broken communicator: its end is near
  }
  registrations_.erase(found);
  (void)ncclMemFree(memory);
}

}  // namespace ddp
