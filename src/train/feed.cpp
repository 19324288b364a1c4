#include "train/feed.h"

namespace ddp {
namespace {

LoaderConfig config_for(const DeviceData& data) {
  switch (data.place) {
    case DeviceData::Place::host: return {};
    case DeviceData::Place::resident: return {.pixels = false, .keep = Feed::kFences};
    case DeviceData::Place::streamed: break;
  }
  return {.pixels = true, .keep = Feed::kFences};
}

}  // namespace

Feed::Feed(DeviceData& data, const DistributedSampler& sampler, int64_t first, int64_t end, int first_fence)
    : data_(data),
      loader_(data.data, sampler, first, end, data.device.host_memory(), config_for(data)),
      first_fence_(first_fence) {
  if (data.place != DeviceData::Place::streamed) return;
  for (int64_t slot = 0; slot < DeviceData::kRing; ++slot) {
    ring_ids_[slot] = Buffer(data.device.host_memory(), static_cast<size_t>(data.largest) * sizeof(int32_t));
    for (int64_t i = 0; i < data.largest; ++i)
      ring_ids_[slot].as<int32_t>()[i] = static_cast<int32_t>(slot * data.largest + i);
  }
}

// A fence behind the work on each shard guards what that work reads: the loader's slot, kept for kFences shards, and
// the device's ring of as many.
const Shard& Feed::next() {
  Device& device = data_.device;
  if (taken_ > 0) device.fence(first_fence_ + static_cast<int>((taken_ - 1) % kFences));
  device.await(first_fence_ + static_cast<int>(taken_ % kFences));
  shard_.batch = loader_.next();
  bring();
  ++taken_;
  return shard_;
}

void Feed::bring() {
  const Batch& batch = shard_.batch;
  Device& device = data_.device;
  const auto size = static_cast<size_t>(batch.size);
  if (data_.place == DeviceData::Place::host) {
    shard_.samples = {.pixels = batch.pixels, .labels = batch.labels, .keys = batch.ids, .size = batch.size};
    return;
  }
  shard_.samples = {
      .pixels = data_.pixels(), .labels = data_.labels(), .ids = data_.ids(), .keys = data_.keys(), .size = batch.size};
  if (data_.place == DeviceData::Place::resident) {
    device.upload(data_.ids(), batch.ids, size * sizeof(int32_t));
    return;
  }
  const int64_t slot = taken_ % DeviceData::kRing;
  const auto image = static_cast<size_t>(data_.data.image_shape().elements());
  device.upload_ahead(data_.pixels() + slot * data_.largest * image, batch.pixels, size * image);
  device.upload_ahead(data_.labels() + slot * data_.largest, batch.labels, size * sizeof(int32_t));
  device.upload(data_.ids(), ring_ids_[slot].data(), size * sizeof(int32_t));
  device.upload(data_.keys(), batch.ids, size * sizeof(int32_t));
}

}  // namespace ddp
