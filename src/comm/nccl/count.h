// A counter of completed work: the device increments it, the host reads it at any time.
#pragma once

#include "device/buffer.h"
#include "device/cuda/check.h"
#include "device/device.h"

#include <cstdint>

namespace ddp {

class Counter {
 public:
  explicit Counter(Device& device);

  // Increments the counter when the work issued to `stream` so far is done. May be captured: each replay increments.
  void count(cudaStream_t stream);

  uint64_t value() const;  // any thread may call this

 private:
  Buffer count_;            // on the device: the increment does not wait for the bus
  Buffer copy_;             // on the host
  void* mapped_ = nullptr;  // device address of copy_
};

}  // namespace ddp
