// The run: epochs of steps, an evaluation now and then.
#pragma once

#include "data/dataset.h"
#include "data/sampler.h"
#include "train/evaluation.h"
#include "train/replica.h"
#include "train/reporter.h"

#include <cstdint>
#include <optional>

namespace ddp {

struct TrainConfig {
  int64_t epochs = 10;
  int64_t max_steps = 0;   // of the whole run; 0: as many as the epochs have
  int64_t eval_every = 1;  // epochs between evaluations, the end of the run included; 0: none
  double lr = 0.2;
};

struct TrainReport {
  std::optional<Evaluation> evaluation;  // the last one
  int64_t steps = 0;
  int64_t samples = 0;       // over all ranks
  double train_seconds = 0;  // evaluation not included
};

// Collective. The samplers are those of this rank.
TrainReport train(const TrainConfig& config, Replica& replica, const Datasets& data,
                  const DistributedSampler& train_sampler, const DistributedSampler& test_sampler, Reporter& reporter);

}  // namespace ddp
