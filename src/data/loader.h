// Reads a rank's shards ahead of their use, in a thread of its own, into a ring of slots that is allocated once. What
// the thread throws is thrown again by next().
#pragma once

#include "data/dataset.h"
#include "data/sampler.h"

#include <cstdint>
#include <memory>

namespace ddp {

struct Batch {
  const uint8_t* pixels = nullptr;  // size images, HWC
  const int32_t* labels = nullptr;
  int64_t size = 0;         // local; may be 0
  int64_t global_size = 0;  // over all ranks
  int64_t epoch = 0;
  int64_t step = 0;  // within the epoch
};

class Loader {
 public:
  // Yields the batches of steps [first, end), counted over all epochs from 0. The data and the sampler outlive it.
  Loader(const Dataset& data, const DistributedSampler& sampler, int64_t first, int64_t end);
  ~Loader();

  // The next batch; it stays valid until the call after this one. Calling it more often than there are batches is a
  // bug.
  const Batch& next();
};

}  // namespace ddp
