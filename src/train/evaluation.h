// Exact distributed evaluation: every sample is counted once, by one rank, and sums and counts are added up.
#pragma once

#include "data/dataset.h"
#include "data/sampler.h"
#include "train/replica.h"

#include <cstdint>

namespace ddp {

struct Evaluation {
  int64_t correct = 0;
  int64_t samples = 0, expected_samples = 0;  // seen by all ranks together, and in the data set
  double loss = 0;                            // mean
  double accuracy() const { return static_cast<double>(correct) / static_cast<double>(samples); }
};

// Collective. `sampler` is sequential over `data`. Throws SharedError(Exit::internal) unless the ranks together have
// seen exactly data.size() samples.
Evaluation evaluate(Replica& replica, const Dataset& data, const DistributedSampler& sampler);

}  // namespace ddp
