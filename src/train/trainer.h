// The run: epochs of steps, an evaluation now and then.
#pragma once

#include "data/dataset.h"
#include "data/sampler.h"
#include "train/evaluation.h"
#include "train/replica.h"
#include "train/reporter.h"
#include "train/schedule.h"
#include "train/step.h"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace ddp {

struct TrainConfig {
  int64_t epochs = 10;
  int64_t max_steps = 0;   // of the whole run; 0: as many as the epochs have
  int64_t eval_every = 1;  // epochs between evaluations, the end of the run included; 0: none
  ScheduleDesc schedule;   // of the learning rate
  StepConfig step;
  size_t device_data_bytes = 0;                          // a data set that takes more is streamed to the device
  std::chrono::milliseconds step_limit{0};               // after which a step is given up; 0: never
  std::function<void(const std::string&)> give_up = {};  // from the watchdog's thread; does not return
};

struct TrainReport {
  std::optional<Evaluation> evaluation;  // the last one
  int64_t steps = 0;
  int64_t skipped = 0;       // of them, bad ones that left the weights alone
  int64_t samples = 0;       // over all ranks
  double train_seconds = 0;  // evaluation not included
};

// Those of this rank.
struct Samplers {
  DistributedSampler train, test;
  // Sequential over the first of the training samples: where it is given, statistics of batch norms are recomputed
  // over them before an evaluation.
  std::optional<DistributedSampler> statistics;

  std::vector<int64_t> batch_sizes() const;  // that occur, at least one
};

// Collective.
TrainReport train(const TrainConfig& config, Replica& replica, const Datasets& data, const Samplers& samplers,
                  Reporter& reporter);

}  // namespace ddp
