// Brings a rank's shards to its device, a few steps ahead of their use.
#pragma once

#include "data/loader.h"
#include "ops/samples.h"
#include "train/device_data.h"

#include <array>
#include <cstdint>

namespace ddp {

struct Shard {
  Batch batch;      // its sizes and place in the epoch
  Samples samples;  // on the device; the same memory for every shard, except on the host
};

class Feed {
 public:
  // Yields the shards of steps [first, end), counted over all epochs from 0, of each micro-batch its own. One feed at a
  // time may use `data`, which, like the sampler, outlives it. Takes the fences of the device from first_fence to
  // first_fence + kFences - 1.
  static constexpr int kFences = DeviceData::kRing;
  Feed(DeviceData& data, const DistributedSampler& sampler, int64_t first, int64_t end, int first_fence);

  ~Feed() { data_.device.quiesce(); }
  Feed(const Feed&) = delete;
  Feed& operator=(const Feed&) = delete;

  // The next shard, for work that is issued before the call after this one. Waits where the device is kFences shards
  // behind.
  const Shard& next();

 private:
  void bring();

  DeviceData& data_;
  Loader loader_;
  int first_fence_;
  int64_t taken_ = 0;
  std::array<Buffer, DeviceData::kRing> ring_ids_;  // streamed: where in the ring the samples of a slot lie
  Shard shard_;
};

}  // namespace ddp
