// Exact distributed evaluation: every sample is counted once, by one rank, and sums and counts are added up.
#pragma once

#include "data/sampler.h"
#include "train/device_dataset.h"
#include "train/precise_bn.h"
#include "train/replica.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

namespace ddp {

struct Evaluation {
  int64_t correct = 0;
  int64_t samples = 0, expected_samples = 0;  // seen by all ranks together, and in the data set
  double loss = 0;                            // mean
  int64_t statistics_samples = 0;             // that statistics were recomputed over; 0: they are the running ones
  double statistics_seconds = 0;              // which took so long, the evaluation itself not included
  double accuracy() const { return static_cast<double>(correct) / static_cast<double>(samples); }
};

class Evaluator {
 public:
  // `sampler` is sequential over `data`. With `precise_bn` batch norms use its statistics, else the running ones.
  // All of these outlive it.
  Evaluator(Replica& replica, DeviceDataset& data, const DistributedSampler& sampler, PreciseBn* precise_bn = nullptr);

  // Collective. Before each batch `go_on` is asked, which answers all ranks alike; where it says no, nothing is
  // returned. Throws CollectiveError(Exit::internal) unless the ranks together have seen each sample of the data set.
  std::optional<Evaluation> run(const std::function<bool()>& go_on);
  Evaluation run() {
    return *run([] { return true; });
  }

 private:
  Replica& replica_;
  DeviceDataset& data_;
  const DistributedSampler& sampler_;
  PreciseBn* precise_bn_;
  Buffer stats_, host_stats_;  // of one step; of all steps
  std::unique_ptr<GraphCache> graphs_;
};

}  // namespace ddp
