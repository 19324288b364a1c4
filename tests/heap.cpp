#include "tests/heap.h"

#include <cstdlib>
#include <new>

namespace {

thread_local int64_t count_of_allocations = 0;
thread_local bool memory_is_short = false;

}  // namespace

// Not inlined: the compiler must not see that operator new calls malloc.
[[gnu::noinline]] void* operator new(size_t bytes) {
  ++count_of_allocations;
  if (void* const memory = memory_is_short ? nullptr : std::malloc(bytes)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, size_t) noexcept { std::free(memory); }

namespace ddp::testing {

int64_t allocations() { return count_of_allocations; }

ShortMemory::ShortMemory() { memory_is_short = true; }
ShortMemory::~ShortMemory() { memory_is_short = false; }

}  // namespace ddp::testing
