#include "device/host_memory.h"

#include "core/error.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace ddp {

void* HostMemory::allocate(size_t bytes) {
  constexpr size_t kAlignment = 64;
  const size_t rounded = std::max(kAlignment, (bytes + kAlignment - 1) / kAlignment * kAlignment);
  void* const memory = std::aligned_alloc(kAlignment, rounded);
  require(memory != nullptr, Exit::device,
          "cannot allocate {} bytes of memory; use a smaller --batch-size or fewer ranks on this host", bytes);
  return std::memset(memory, 0, rounded);
}

void HostMemory::deallocate(void* memory) noexcept { std::free(memory); }

}  // namespace ddp
