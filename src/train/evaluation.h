// Exact distributed evaluation: every sample is counted once, by one rank, and sums and counts are added up.
#pragma once

#include "data/sampler.h"
#include "train/device_data.h"
#include "train/replica.h"

#include <cstdint>
#include <memory>

namespace ddp {

struct Evaluation {
  int64_t correct = 0;
  int64_t samples = 0, expected_samples = 0;  // seen by all ranks together, and in the data set
  double loss = 0;                            // mean
  double accuracy() const { return static_cast<double>(correct) / static_cast<double>(samples); }
};

class Evaluator {
 public:
  // `sampler` is sequential over `data`; all of these outlive it.
  Evaluator(Replica& replica, DeviceData& data, const DistributedSampler& sampler);

  // Collective. Throws SharedError(Exit::internal) unless the ranks together have seen each sample of the data set.
  Evaluation run();

 private:
  Replica& replica_;
  DeviceData& data_;
  const DistributedSampler& sampler_;
  Buffer stats_, host_stats_;  // of one step; of all steps
  std::unique_ptr<Recorder> recorder_;
};

}  // namespace ddp
