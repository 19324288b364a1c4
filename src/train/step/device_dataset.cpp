#include "train/step/device_dataset.h"

#include <algorithm>
#include <iterator>
#include <span>
#include <vector>

namespace ddp {
namespace {

DeviceDataset::Place choose(const Device& device, const Dataset& data, size_t limit_bytes) {
  if (device.is_host()) return DeviceDataset::Place::host;
  const auto bytes = static_cast<size_t>(data.size() * (data.sample_bytes() + int64_t{sizeof(int32_t)}));
  return data.in_memory() && bytes <= limit_bytes ? DeviceDataset::Place::resident : DeviceDataset::Place::streamed;
}

}  // namespace

DeviceDataset::DeviceDataset(Device& device_, const Dataset& data_, int64_t largest_, const DataPlacement& placement)
    : device(device_),
      data(data_),
      largest(largest_ + (placement.mix ? 1 : 0)),
      place(choose(device_, data_, placement.device_bytes)),
      workers(data_.in_memory() ? 1 : placement.workers),
      slow(placement.slow),
      spans(placement.spans),
      exclusions(placement.exclusions),
      mix(placement.mix),
      class_weights(placement.class_weights.begin(), placement.class_weights.end()) {
  if (!class_weights.empty()) {
    class_weights_ = Buffer(device, bytes_of_floats(std::ssize(class_weights)));
    device.upload(class_weights_.data(), class_weights.data(), class_weights_.bytes());
  }
  if (place == Place::host) return;
  if (place == Place::resident) given_ids_ = placement.ids;
  const auto count = static_cast<size_t>(place == Place::resident ? data.size() : kRing * largest);
  samples_ = Buffer(device, count * static_cast<size_t>(data.sample_bytes()));
  labels_ = Buffer(device, count * sizeof(int32_t));
  if (prefetcher_uploads_ids()) ids_ = Buffer(device, static_cast<size_t>(largest) * sizeof(int32_t));
  if (place == Place::streamed) keys_ = Buffer(device, static_cast<size_t>(largest) * sizeof(int32_t));
  if (place == Place::resident) copy_all();
}

int64_t DeviceDataset::bytes_on(const Device& device, const Dataset& data, int64_t largest,
                                const DataPlacement& placement) {
  const Place place = choose(device, data, placement.device_bytes);
  if (place == Place::host) return 0;
  constexpr int64_t kNumber = sizeof(int32_t);
  const int64_t count = place == Place::resident ? data.size() : kRing * largest;
  return count * (data.sample_bytes() + kNumber) + 2 * largest * kNumber;
}

void DeviceDataset::copy_all() {
  constexpr int64_t kPiece = 4096;
  const auto bytes = static_cast<size_t>(data.sample_bytes());
  std::vector<uint8_t> samples(static_cast<size_t>(std::min(kPiece, data.size())) * bytes);
  std::vector<int32_t> labels(std::min(kPiece, data.size()));
  for (int64_t begin = 0; begin < data.size(); begin += kPiece) {
    const int64_t count = std::min(kPiece, data.size() - begin);
    for (int64_t i = 0; i < count; ++i) {
      data.read({begin + i}, std::span(samples).subspan(i * bytes, bytes));
      labels[i] = data.label(begin + i);
    }
    device.upload(this->samples() + begin * bytes, samples.data(), count * bytes);
    device.upload(this->labels() + begin, labels.data(), count * sizeof(int32_t));
  }
}

}  // namespace ddp
