// A shard, on the device: `size` > 0 samples. Sample i is image ids[i] of `pixels` and label ids[i] of `labels`, or,
// where there are no ids, image and label i.
#pragma once

#include <cstdint>

namespace ddp {

struct Samples {
  const uint8_t* pixels = nullptr;  // images, HWC, one after another
  const int32_t* labels = nullptr;
  const int32_t* ids = nullptr;  // may be null
  // keys[i]: sample i's index in the data set, which its randomness is keyed by; for dropout only.
  const int32_t* keys = nullptr;
  int64_t size = 0;

  int64_t id(int64_t i) const { return ids ? ids[i] : i; }  // on the host, where that is the device
};

}  // namespace ddp
