// A counter of completed work: the device increments it, the host reads it at any time. It also keeps the times of the
// last increments.
#pragma once

#include "device/buffer.h"
#include "device/cuda/check.h"
#include "device/device.h"

#include <cstdint>
#include <optional>

namespace ddp {

class Counter {
 public:
  explicit Counter(Device& device);

  // Keeps the times of the last `kept` increments from now on: of work that is issued or captured after this call.
  // Call it while no work is in flight.
  void record_times(uint64_t kept);

  // Adds `n` to the counter when the work issued to `stream` so far is done. May be captured: each replay adds.
  void count(cudaStream_t stream, uint64_t n = 1);

  uint64_t value() const;  // any thread may call this

  // The device's clock in ns when the counter became n; nullopt if it is below n, or no such time is kept.
  std::optional<int64_t> time_of(uint64_t n) const;

 private:
  Device& device_;
  Buffer count_;            // on the device: the increment does not wait for the bus
  Buffer copy_;             // on the host
  void* mapped_ = nullptr;  // device address of copy_
  uint64_t kept_ = 0, first_timed_ = 0;
  Buffer times_;                  // on the host; the time of increment n is at index n mod kept_
  void* mapped_times_ = nullptr;  // device address of times_
};

}  // namespace ddp
