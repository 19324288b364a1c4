// A batch to measure a pass with, between steps: as large as this rank's first one, with blank samples.
#pragma once

#include "data/dataset.h"
#include "data/sampler.h"
#include "device/buffer.h"
#include "ops/device_batch.h"
#include "train/step/replica.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace ddp {

class BlankBatch {
 public:
  // Of a training on `data`, whose samples are not read. Owns the memory of `batch`.
  BlankBatch(const Replica& replica, const Dataset& data, const DistributedSampler& sampler)
      : samples_(replica.device, stored(sampler) * static_cast<size_t>(data.sample_bytes())),
        labels_(replica.device, stored(sampler) * sizeof(int32_t)),
        batch{.samples = samples_.as<uint8_t>(),
              .labels = labels_.as<int32_t>(),
              .keys = labels_.as<int32_t>(),
              .size = sampler.shard(0).size(),
              .plan = sampler.plan(0),
              .sequence_length = data.sequence_length()} {}

 private:
  static size_t stored(const DistributedSampler& sampler) {
    return static_cast<size_t>(std::max<int64_t>(sampler.shard(0).size(), 1));
  }

  const Buffer samples_, labels_;

 public:
  const DeviceBatch batch;
};

}  // namespace ddp
