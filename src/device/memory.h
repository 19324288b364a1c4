// A source of memory. What it gives is 64-byte aligned and zeroed.
#pragma once

#include <cstddef>

namespace ddp {

class Memory {
 public:
  virtual ~Memory() = default;

  // Throws Error(Exit::device) with the size when there is not enough. Never in a step.
  virtual void* allocate(size_t bytes) = 0;
  virtual void deallocate(void* memory) noexcept = 0;
};

}  // namespace ddp
