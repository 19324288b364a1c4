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
  int64_t statistics_samples = 0;             // that statistics were recomputed over; 0: they are the running ones
  double statistics_seconds = 0;              // which took so long
  double accuracy() const { return static_cast<double>(correct) / static_cast<double>(samples); }
};

class Evaluator {
 public:
  // `sampler` is sequential over `data`. With `recomputation` batch norms use its statistics, else the running ones.
  // All of these outlive it.
  class Recomputation;
  Evaluator(Replica& replica, DeviceData& data, const DistributedSampler& sampler,
            Recomputation* recomputation = nullptr);

  // Collective. Throws SharedError(Exit::internal) unless the ranks together have seen each sample of the data set.
  Evaluation run();

 private:
  Replica& replica_;
  DeviceData& data_;
  const DistributedSampler& sampler_;
  Recomputation* recomputation_;
  Buffer stats_, host_stats_;  // of one step; of all steps
  std::unique_ptr<Recorder> recorder_;
};

// The statistics of all batch norms with the weights as they are, over the samples of a data set: forward passes in
// which each global batch is normalised by its own mean and variance, over all ranks, so that the world size does not
// show. They are put into the replica's evaluation_state; nothing that training uses is changed.
class Evaluator::Recomputation {
 public:
  static constexpr int64_t kSamples = 12800;  // that suffice

  // `sampler` is sequential over `data`. Both outlive it.
  Recomputation(Replica& replica, DeviceData& data, const DistributedSampler& sampler);
  void run();  // collective
  int64_t samples() const { return sampler_.samples(); }

 private:
  Replica& replica_;
  DeviceData& data_;
  const DistributedSampler& sampler_;
  std::unique_ptr<Recorder> recorder_;
};

}  // namespace ddp
