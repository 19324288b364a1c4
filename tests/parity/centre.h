// Weights at which no ReLU is near zero give channels means far from the running means of zero, about which the sums of
// a norm would lose digits that no later step loses. So there the running means are set first.
#pragma once

#include "data/sampler.h"
#include "train/precise_bn.h"

namespace ddp::testing {

// To the statistics of `data` in batches of `batch`. Of one rank alone.
inline void centre_statistics(Replica& replica, const Dataset& data, int64_t batch) {
  const DistributedSampler sequential(data.size(), batch, Order::sequential, 0, 0, {1.0});
  PreciseBn(replica, data, sequential, 0).run();
  replica.load_running_stats(replica.download_stats(replica.eval_stats()));
}

}  // namespace ddp::testing
