// Memory that NCCL allocates and registers, so that NCCL sends from it without a copy.
#pragma once

#include "comm/nccl/handle.h"
#include "device/memory.h"

#include <map>
#include <utility>
#include <vector>

namespace ddp {

class NcclMemory final : public Memory {
 public:
  // `streams`: all streams that use the memory. `nccl` must outlive this.
  NcclMemory(Nccl& nccl, std::vector<cudaStream_t> streams) : nccl_(nccl), streams_(std::move(streams)) {}

  void* allocate(size_t bytes) override;
  void deallocate(void* memory) noexcept override;

 private:
  struct Block {
    bool allocated_by_nccl = false;
    void* registration = nullptr;
  };
  static void release(void* memory, const Block& block) noexcept;

  Nccl& nccl_;
  const std::vector<cudaStream_t> streams_;
  std::map<void*, Block> blocks_;
};

}  // namespace ddp
