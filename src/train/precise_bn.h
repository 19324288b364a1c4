// The statistics of all batch norms with the weights as they are, over the first samples of a data set: forward passes
// in which each global batch is normalised by its own mean and variance, over all ranks, so that the world size does
// not show. They are put into the replica's eval_stats; nothing that training uses is changed.
#pragma once

#include "data/sampler.h"
#include "data/subset.h"
#include "train/device_dataset.h"
#include "train/replica.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

namespace ddp {

class PreciseBn {
 public:
  static constexpr int64_t kSamples = 12800;  // more change nothing that shows in an accuracy

  // `sampler` is sequential over as many of the samples of `data` as it has. `limit_bytes` as for DeviceDataset.
  // Replica and data outlive it.
  PreciseBn(Replica& replica, const Dataset& data, const DistributedSampler& sampler, size_t limit_bytes);

  // Collective. Before each batch `go_on` is asked, which answers all ranks alike; where it says no, run() ends there,
  // returns false, and the eval_stats is not to be used.
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
