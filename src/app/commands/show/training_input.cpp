#include "app/commands/show/training_input.h"

#include "device/cpu/device.h"
#include "ops/cpu/ops.h"

namespace ddp {

TrainingInput::TrainingInput(const LoadedData& data, const DistributedSampler& sampler, int64_t first, int64_t end,
                             uint64_t seed, const PixelScale& scale)
    : device_(make_cpu_device()),
      ops_(make_cpu_ops(*device_, {})),
      image_(data.data.train->image_shape()),
      scale_(scale),
      dataset_(*device_, *data.data.train, sampler.largest_shard(), {.workers = data.workers}),
      prefetcher_(dataset_, sampler, first, end, 0),
      augmentation_(data.augmentation),
      values_(*device_, bytes_of_floats(sampler.largest_shard() * image_.elements())) {
  augmentation_.seed = seed;
  augmentation_.epoch = &epoch_;
}

TrainingInput::Batch TrainingInput::next() {
  const DeviceBatch& batch = prefetcher_.next();
  epoch_ = static_cast<uint32_t>(batch.plan.epoch);
  const Tensor x{values_.data(), {batch.size, image_}, {}, DType::f32};
  ops_->normalize(batch, image_, scale_, augmentation_, x);
  const auto size = static_cast<size_t>(batch.size);
  return {.size = batch.size,
          .values = {x.f32(), size * static_cast<size_t>(image_.elements())},
          .labels = {batch.labels, size}};
}

}  // namespace ddp
