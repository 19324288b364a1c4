// Brings a rank's batches to its device, a few micro-batches ahead of their use.
#pragma once

#include "data/loader.h"
#include "ops/device_batch.h"
#include "train/step/device_dataset.h"

#include <array>
#include <cstdint>
#include <functional>

namespace ddp {

// A source of batches. Each stays valid until the next call.
using NextBatch = std::function<const DeviceBatch&()>;

class Prefetcher {
 public:
  // Yields the batches of steps [first, end), counted over all epochs from 0; each micro-batch is a batch. Only one
  // prefetcher at a time may use `data`. Data and sampler outlive the prefetcher. Uses the device's fences from
  // first_fence to first_fence + kFences - 1.
  static constexpr int kFences = DeviceDataset::kRing;
  Prefetcher(DeviceDataset& data, const DistributedSampler& sampler, int64_t first, int64_t end, int first_fence);

  ~Prefetcher() { data_.device.quiesce(); }
  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;

  // The next batch, for work that is issued before the next call. Waits if the device is kFences batches behind. Every
  // batch has the same device memory, except if the device is the host.
  const DeviceBatch& next();

 private:
  void bring(const HostBatch& loaded);

  DeviceDataset& data_;
  Loader loader_;
  int first_fence_;
  int64_t taken_ = 0;
  std::array<Buffer, DeviceDataset::kRing> ring_ids_;  // streamed: positions in the ring of the samples of each slot
  DeviceBatch batch_;
};

}  // namespace ddp
