// The input of a network in training, batch after batch, on one CPU rank. The batches take the way of a training: the
// loader reads them, and the op of the backend changes and normalizes them.
#pragma once

#include "app/inputs/load_data.h"
#include "data/sampler.h"
#include "device/buffer.h"
#include "device/device.h"
#include "ops/ops.h"
#include "train/step/device_dataset.h"
#include "train/step/prefetcher.h"

#include <cstdint>
#include <memory>
#include <span>

namespace ddp {

class TrainingInput {
 public:
  // The steps [first, end) of `sampler`, counted over all epochs from 0. `seed` is that of the training. `data` and
  // `sampler` outlive this object.
  TrainingInput(const LoadedData& data, const DistributedSampler& sampler, int64_t first, int64_t end, uint64_t seed,
                const PixelScale& scale);

  struct Batch {
    int64_t size = 0;
    std::span<const float> values;    // NHWC
    std::span<const int32_t> labels;  // of `size` samples
  };
  // Valid until the next call.
  Batch next();

 private:
  const std::unique_ptr<Device> device_;
  const std::unique_ptr<Ops> ops_;
  const ImageShape image_;
  const PixelScale scale_;
  DeviceDataset dataset_;
  Prefetcher prefetcher_;
  uint32_t epoch_ = 0;
  Augmentation augmentation_;
  Buffer values_;
};

}  // namespace ddp
