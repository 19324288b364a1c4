// Counts on the device, and is read on the host at any time.
#pragma once

#include "device/buffer.h"
#include "device/cuda/check.h"
#include "device/device.h"

#include <cstdint>

namespace ddp {

class Counter {
 public:
  explicit Counter(Device& device);

  // One more once the work in `stream` so far is done. May be captured, and counts whenever it is replayed.
  void count(cudaStream_t stream);

  // From any thread.
  uint64_t value() const;

 private:
  Buffer count_;            // on the device, so that nothing waits for the bus
  Buffer copy_;             // on the host
  void* mapped_ = nullptr;  // the copy as the device sees it
};

}  // namespace ddp
