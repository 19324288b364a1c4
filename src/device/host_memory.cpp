#include "device/host_memory.h"

#include "core/error.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace ddp {

void* HostMemory::allocate(size_t bytes) {
  constexpr size_t kHuge = 2 << 20;  // bytes of a page
  const size_t alignment = bytes >= 2 * kHuge ? kHuge : 64;
  const size_t rounded = std::max(alignment, (bytes + alignment - 1) / alignment * alignment);
  void* const memory = std::aligned_alloc(alignment, rounded);
  require(memory != nullptr, Exit::device,
          "cannot allocate {} bytes of memory; use a smaller --batch-size or fewer ranks on this host", bytes);
  if (alignment == kHuge) ::madvise(memory, rounded, MADV_HUGEPAGE);  // fewer misses of the TLB; only a hint
  return std::memset(memory, 0, rounded);
}

void HostMemory::deallocate(void* memory) noexcept { std::free(memory); }

}  // namespace ddp
