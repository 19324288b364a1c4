// Precise batch norm: recomputes the statistics of all batch norms with the current weights, over a subset of a data
// set. Forward passes normalise each global batch by its own mean and variance over all ranks, so that the
// result does not depend on the world size. The statistics go into the replica's eval_stats(). No training state
// changes.
#pragma once

#include "data/sampler.h"
#include "data/subset.h"
#include "train/step/device_dataset.h"
#include "train/step/replica.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

namespace ddp {

class PreciseBn {
 public:
  static constexpr int64_t kSamples = 12800;  // more samples do not change the accuracy visibly

  // `sampler` is sequential over Subset(data, sampler.samples()). Replica and data outlive this object.
  PreciseBn(Replica& replica, const Dataset& data, const DistributedSampler& sampler, const DataPlacement& placement);

  // Collective. Calls `go_on` before each batch; it returns the same value on all ranks. If it returns false, run()
  // returns false at once and eval_stats() is not valid.
  bool run(const std::function<bool()>& go_on = [] { return true; });
  int64_t samples() const { return sampler_.samples(); }

 private:
  Replica& replica_;
  const DistributedSampler sampler_;
  const Subset samples_;
  DeviceDataset data_;
  std::unique_ptr<GraphCache> graphs_;
};

}  // namespace ddp
