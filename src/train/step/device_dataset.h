// A data set for a device. If the device is the host, the data stay where they are. Otherwise all data are copied to
// the device; if they are not in memory, or take more than the limit, batches stream through a ring of buffers on the
// device.
#pragma once

#include "data/dataset.h"
#include "data/loader.h"
#include "device/buffer.h"
#include "device/device.h"
#include "ops/batch_mix.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace ddp {

struct DataPlacement {
  size_t device_bytes = 0;  // the largest data set that is copied to the device as a whole
  int workers = 1;          // threads that read data which are not in memory
  SlowData slow = {};
  SpanRecorder* spans = nullptr;     // of the loader's threads; null: none
  Exclusions* exclusions = nullptr;  // as LoaderConfig::exclusions; outlives the data set

  // Of training. Not null: batches are mixed by these values in device memory (DeviceBatch::mix).
  const BatchMix* mix = nullptr;
  std::span<const float> class_weights = {};  // of training: DeviceBatch::class_weights; empty: none

  // Device memory for the ids of a batch: who issues the work on the batch uploads them to it, if the data set is
  // resident. Null: the prefetcher uploads them.
  int32_t* ids = nullptr;
};

class DeviceDataset {
 public:
  enum class Place { host, resident, streamed };
  static constexpr int kRing = 3;  // batches

  // `largest`: samples of this rank's largest batch. Device and data set outlive this object.
  DeviceDataset(Device& device, const Dataset& data, int64_t largest, const DataPlacement& placement);

  // The device memory that it takes.
  static int64_t bytes_on(const Device& device, const Dataset& data, int64_t largest, const DataPlacement& placement);

  Device& device;
  const Dataset& data;
  const int64_t largest;  // samples in the memory of a batch: with the partner of the first one, if batches are mixed
  const Place place;
  const int workers;  // threads that read the data
  const SlowData slow;
  SpanRecorder* const spans;
  Exclusions* const exclusions;
  const BatchMix* const mix;
  const std::vector<float> class_weights;

  // Device memory; null on the host. Samples and labels of the whole data set, or of kRing x largest samples. `ids`:
  // the samples of one batch as positions in this memory. `keys`: the same samples as indices in the data set.
  uint8_t* samples() const { return samples_.as<uint8_t>(); }
  int32_t* labels() const { return labels_.as<int32_t>(); }
  int32_t* ids() const { return given_ids_ ? given_ids_ : ids_.as<int32_t>(); }
  const float* device_class_weights() const { return class_weights_.as<float>(); }
  int32_t* keys() const { return place == Place::streamed ? keys_.as<int32_t>() : ids(); }

  bool prefetcher_uploads_ids() const { return given_ids_ == nullptr; }

 private:
  void copy_all();
  int32_t* given_ids_ = nullptr;
  Buffer samples_, labels_, ids_, keys_, class_weights_;
};

}  // namespace ddp
