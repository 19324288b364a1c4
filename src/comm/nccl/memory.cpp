#include "comm/nccl/memory.h"

#include "comm/nccl/poll.h"
#include "core/error.h"

#include <algorithm>
#include <exception>

namespace ddp {

// If NCCL's allocation fails, as in virtual machines whose driver does not support it, uses cudaMalloc: slower on
// NVLink, otherwise the same.
void* NcclMemory::allocate(size_t bytes) {
  const size_t size = std::max<size_t>(bytes, 1);
  void* memory = nullptr;
  Block block{.allocated_by_nccl = ncclMemAlloc(&memory, size) == ncclSuccess};
  if (!block.allocated_by_nccl && cudaMalloc(&memory, size) != cudaSuccess) {
    cudaGetLastError();
    fail(Exit::device, "cannot allocate {} bytes on the GPU for NCCL: {}; use a smaller --batch-size or more ranks",
         bytes, ncclGetLastError(nullptr));
  }
  try {
    DDP_CUDA(cudaMemsetAsync(memory, 0, size, streams_.front()));
    DDP_CUDA(cudaStreamSynchronize(streams_.front()));
    if (block.allocated_by_nccl)
      nccl_.run("registering memory",
                [&](ncclComm_t comm) { return ncclCommRegister(comm, memory, size, &block.registration); });
  } catch (...) {
    release(memory, block);
    throw;
  }
  blocks_[memory] = block;
  return memory;
}

void NcclMemory::deallocate(void* memory) noexcept {
  const auto found = blocks_.find(memory);
  if (found == blocks_.end() || !idle_within(kShutdownTimeout, streams_)) return;  // still in use: leak it
  try {
    if (found->second.registration)  // null if NCCL did not register the memory
      nccl_.run("deregistering memory",
                [&](ncclComm_t comm) { return ncclCommDeregister(comm, found->second.registration); });
  } catch (const std::exception&) {  // the communicator is broken and will be aborted
  }
  release(memory, found->second);
  blocks_.erase(found);
}

void NcclMemory::release(void* memory, const Block& block) noexcept {
  if (block.allocated_by_nccl)
    (void)ncclMemFree(memory);
  else
    (void)cudaFree(memory);
}

}  // namespace ddp
