// Address space in place of memory: tells how much memory objects would take, without taking it. Only pages that are
// written take memory, until they are freed.
#pragma once

#include "device/memory.h"

#include <cstddef>
#include <cstdint>
#include <unordered_map>

namespace ddp {

class PlanningMemory final : public Memory {
 public:
  PlanningMemory() = default;
  ~PlanningMemory() override;
  PlanningMemory(const PlanningMemory&) = delete;
  PlanningMemory& operator=(const PlanningMemory&) = delete;

  // Throws Error(Exit::device) where the process may not have so much address space.
  void* allocate(size_t bytes) override;
  void deallocate(void* memory) noexcept override;

  int64_t peak() const { return peak_; }  // most bytes at one time

 private:
  std::unordered_map<void*, size_t> blocks_;
  int64_t live_ = 0, peak_ = 0;
};

}  // namespace ddp
