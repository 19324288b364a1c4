// Exact distributed evaluation: exactly one rank evaluates each sample, and an allreduce adds losses and counts.
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
  int64_t samples = 0, expected_samples = 0;  // samples evaluated by all ranks, samples of the data set
  double loss = 0;                            // mean over the samples
  int64_t statistics_samples = 0;             // samples of the recomputed statistics; 0: running statistics were used
  double statistics_seconds = 0;              // time of that recomputation, evaluation excluded
  double accuracy() const { return static_cast<double>(correct) / static_cast<double>(samples); }
};

class Evaluator {
 public:
  // `sampler` is sequential over `data`. With `precise_bn` batch norms use its statistics, else the running ones.
  // All of these outlive it.
  Evaluator(Replica& replica, DeviceDataset& data, const DistributedSampler& sampler, PreciseBn* precise_bn = nullptr);

  // Collective. Calls `go_on` before each batch; it returns the same value on all ranks, and false ends the run with no
  // result. Throws CollectiveError(Exit::internal) unless the ranks together have seen as many samples as the data set
  // has.
  std::optional<Evaluation> run(const std::function<bool()>& go_on);
  Evaluation run() {
    return *run([] { return true; });
  }

 private:
  Replica& replica_;
  DeviceDataset& data_;
  const DistributedSampler& sampler_;
  PreciseBn* precise_bn_;
  Buffer stats_, host_stats_;  // loss and correct count of one step; of all steps
  std::unique_ptr<GraphCache> graphs_;
};

}  // namespace ddp
