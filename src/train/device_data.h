// A data set as the device sees it: on the host where that is the device, else as a whole in the device's memory, or,
// where that would take more than the limit, as a ring of shards through which it streams.
#pragma once

#include "data/dataset.h"
#include "device/buffer.h"
#include "device/device.h"

#include <cstddef>
#include <cstdint>

namespace ddp {

class DeviceData {
 public:
  enum class Place { host, resident, streamed };
  static constexpr int kRing = 3;  // shards

  // `largest`: samples of the largest shard. Data set and device outlive it.
  DeviceData(Device& device, const Dataset& data, int64_t largest, size_t limit_bytes);

  Device& device;
  const Dataset& data;
  const int64_t largest;
  const Place place;

  // Of images, all or kRing x largest; of their labels; and of one shard's ids, in this memory and in the data set.
  // Null on the host.
  uint8_t* pixels() const { return pixels_.as<uint8_t>(); }
  int32_t* labels() const { return labels_.as<int32_t>(); }
  int32_t* ids() const { return ids_.as<int32_t>(); }
  int32_t* keys() const { return place == Place::streamed ? keys_.as<int32_t>() : ids(); }

 private:
  void copy_all();
  Buffer pixels_, labels_, ids_, keys_;
};

}  // namespace ddp
