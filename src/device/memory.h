// A source of memory. The memory is 64-byte aligned and zeroed.
#pragma once

#include <cstddef>

namespace ddp {

class Memory {
 public:
  virtual ~Memory() = default;

  // Throws Error(Exit::device) with the size if there is not enough memory. Do not call it in a training step.
  virtual void* allocate(size_t bytes) = 0;
  virtual void deallocate(void* memory) noexcept = 0;
};

}  // namespace ddp
