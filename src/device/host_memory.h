// Ordinary memory of this process; large parts ask Linux for huge pages.
#pragma once

#include "device/memory.h"

namespace ddp {

class HostMemory final : public Memory {
 public:
  void* allocate(size_t bytes) override;
  void deallocate(void* memory) noexcept override;
};

}  // namespace ddp
