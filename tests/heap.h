// The heap of a test program that has heap.cpp among its sources, which replaces operator new.
#pragma once

#include <cstdint>

namespace ddp::testing {

int64_t allocations();  // of this thread, since its start

// While it lives, operator new throws std::bad_alloc in this thread. There is one at a time in a thread.
class ShortMemory {
 public:
  ShortMemory();
  ~ShortMemory();
  ShortMemory(const ShortMemory&) = delete;
  ShortMemory& operator=(const ShortMemory&) = delete;
};

}  // namespace ddp::testing
