#include "device/planning_memory.h"

#include "core/error.h"

#include <sys/mman.h>

#include <algorithm>

namespace ddp {

PlanningMemory::~PlanningMemory() {
  for (const auto& [memory, bytes] : blocks_) ::munmap(memory, bytes);
}

void* PlanningMemory::allocate(size_t bytes) {
  const size_t length = std::max<size_t>(bytes, 1);
  void* const memory =
      ::mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  require(memory != MAP_FAILED, Exit::device, "there is no address space for {} bytes", bytes);
  blocks_[memory] = length;
  live_ += static_cast<int64_t>(length);
  peak_ = std::max(peak_, live_);
  return memory;
}

void PlanningMemory::deallocate(void* memory) noexcept {
  const auto found = blocks_.find(memory);
  if (found == blocks_.end()) return;
  ::munmap(memory, found->second);
  live_ -= static_cast<int64_t>(found->second);
  blocks_.erase(found);
}

}  // namespace ddp
