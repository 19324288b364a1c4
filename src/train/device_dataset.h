// A data set as the device sees it: on the host where that is the device, else as a whole in the device's memory, or,
// where that would take more than the limit, as a ring of batches through which it streams.
#pragma once

#include "data/dataset.h"
#include "device/buffer.h"
#include "device/device.h"

#include <cstddef>
#include <cstdint>

namespace ddp {

class DeviceDataset {
 public:
  enum class Place { host, resident, streamed };
  static constexpr int kRing = 3;  // batches

  // `largest`: samples of the largest batch of this rank. Data set and device outlive it.
  DeviceDataset(Device& device, const Dataset& data, int64_t largest, size_t limit_bytes);

  Device& device;
  const Dataset& data;
  const int64_t largest;
  const Place place;

  // All images, or kRing x largest; their labels; the ids of one batch in this memory, and in the data set. Null on the
  // host.
  uint8_t* images() const { return images_.as<uint8_t>(); }
  int32_t* labels() const { return labels_.as<int32_t>(); }
  int32_t* ids() const { return ids_.as<int32_t>(); }
  int32_t* keys() const { return place == Place::streamed ? keys_.as<int32_t>() : ids(); }

 private:
  void copy_all();
  Buffer images_, labels_, ids_, keys_;
};

}  // namespace ddp
