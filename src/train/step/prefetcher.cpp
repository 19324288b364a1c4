#include "train/step/prefetcher.h"

namespace ddp {
namespace {

LoaderConfig config_for(const DeviceDataset& data) {
  switch (data.place) {
    case DeviceDataset::Place::host:
      return {.workers = data.workers,
              .slow = data.slow,
              .exclusions = data.exclusions,
              .sample_before = data.mix != nullptr,
              .spans = data.spans};
    case DeviceDataset::Place::resident:
      return {.samples = false, .keep = Prefetcher::kFences, .sample_before = data.mix != nullptr, .spans = data.spans};
    case DeviceDataset::Place::streamed: break;
  }
  return {.samples = true,
          .keep = Prefetcher::kFences,
          .workers = data.workers,
          .slow = data.slow,
          .exclusions = data.exclusions,
          .sample_before = data.mix != nullptr,
          .spans = data.spans};
}

double sum_of_weights(const HostBatch& loaded, const std::vector<float>& class_weights) {
  double sum = 0;
  for (int64_t i = 0; !class_weights.empty() && i < loaded.plan.size; ++i)
    if (loaded.labels[i] != kExcludedLabel) sum += class_weights[static_cast<size_t>(loaded.labels[i])];
  return sum;
}

}  // namespace

Prefetcher::Prefetcher(DeviceDataset& data, const DistributedSampler& sampler, int64_t first, int64_t end,
                       int first_fence)
    : data_(data),
      loader_(data.data, sampler, first, end, data.device.host_memory(), config_for(data)),
      first_fence_(first_fence) {
  if (data.place != DeviceDataset::Place::streamed) return;
  for (int64_t slot = 0; slot < DeviceDataset::kRing; ++slot) {
    ring_ids_[slot] = Buffer(data.device.host_memory(), static_cast<size_t>(data.largest) * sizeof(int32_t));
    for (int64_t i = 0; i < data.largest; ++i)
      ring_ids_[slot].as<int32_t>()[i] = static_cast<int32_t>(slot * data.largest + i);
  }
}

// A fence after the work on each batch protects the memory that the work reads: the loader's slot, kept for kFences
// batches, and the batch's slot in the device's ring of kFences slots.
const DeviceBatch& Prefetcher::next() {
  Device& device = data_.device;
  if (taken_ > 0) device.fence(first_fence_ + static_cast<int>((taken_ - 1) % kFences));
  device.await(first_fence_ + static_cast<int>(taken_ % kFences));
  bring(loader_.next());
  ++taken_;
  return batch_;
}

void Prefetcher::bring(const HostBatch& loaded) {
  Device& device = data_.device;
  const auto size = static_cast<size_t>(loaded.stored);
  batch_ = {.size = loaded.plan.size,
            .excluded = loaded.excluded,
            .plan = loaded.plan,
            .mix = data_.mix,
            .partner_excluded = loaded.before_excluded,
            .class_weights = data_.device_class_weights(),
            .label_weights = sum_of_weights(loaded, data_.class_weights),
            .sequence_length = data_.data.sequence_length()};
  if (data_.place == DeviceDataset::Place::host) {
    batch_.samples = loaded.samples;
    batch_.labels = loaded.labels;
    batch_.keys = loaded.ids;
    return;
  }
  batch_.samples = data_.samples();
  batch_.labels = data_.labels();
  batch_.ids = data_.ids();
  batch_.keys = data_.keys();
  if (data_.place == DeviceDataset::Place::resident) {
    if (data_.prefetcher_uploads_ids())
      device.upload(data_.ids(), loaded.ids, size * sizeof(int32_t));
    else
      batch_.ids_to_upload = loaded.ids;
    return;
  }
  const int64_t slot = taken_ % DeviceDataset::kRing;
  const auto bytes = static_cast<size_t>(data_.data.sample_bytes());
  device.upload_ahead(data_.samples() + slot * data_.largest * bytes, loaded.samples, size * bytes);
  device.upload_ahead(data_.labels() + slot * data_.largest, loaded.labels, size * sizeof(int32_t));
  device.upload(data_.ids(), ring_ids_[slot].data(), size * sizeof(int32_t));
  device.upload(data_.keys(), loaded.ids, size * sizeof(int32_t));
}

}  // namespace ddp
