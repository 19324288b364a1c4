// Sets the running means before the first step. At the open weights, where no ReLU is near zero, channel means are far
// from the initial running means of zero. The first step's sums about zero would lose digits; later steps lose none.
#pragma once

#include "data/sampler.h"
#include "train/evaluation/precise_bn.h"

namespace ddp::testing {

// Sets the running statistics to those of `data`, taken in batches of `batch`. For a world of one rank.
inline void centre_statistics(Replica& replica, const Dataset& data, int64_t batch) {
  const DistributedSampler sequential(data.size(), batch, Order::sequential, 0, 0, {1.0});
  PreciseBn(replica, data, sequential, {}).run();
  replica.load_running_stats(replica.download_stats(replica.eval_stats()));
}

}  // namespace ddp::testing
