// The run: epochs of steps, an evaluation and a checkpoint now and then, until it has ended or is asked to stop.
#pragma once

#include "data/dataset.h"
#include "data/sampler.h"
#include "train/checkpoint_writer.h"
#include "train/evaluation.h"
#include "train/phase_tracker.h"
#include "train/replica.h"
#include "train/reporter.h"
#include "train/run_state.h"
#include "train/save_schedule.h"
#include "train/schedule.h"
#include "train/step.h"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <vector>

namespace ddp {

struct TrainConfig {
  int64_t epochs = 10;
  int64_t max_steps = 0;    // of the whole run; 0: as many as the epochs have
  int64_t eval_every = 1;   // epochs between evaluations, the end of the run included; 0: none
  int64_t check_every = 0;  // steps between comparisons of the replicas, besides those at the end of an epoch; 0: none
  ScheduleDesc schedule;    // of the learning rate
  StepConfig step;          // its fields of a run that goes on are set here
  SaveEvery save_every;     // the end of the run too, unless never
  bool keep_best = false;   // save after every evaluation that is the best so far
  size_t device_data_bytes = 0;  // a data set that takes more is streamed to the device

  RunState start = {};                    // where the run goes on
  bool start_is_saved = false;            // in the folder that the writer writes to
  std::filesystem::path checkpoint = {};  // rank 0: that one
  int64_t updates = 0;                    // of the running statistics so far

  // Decorates the source of the run's batches.
  std::function<NextBatch(NextBatch)> batch_source = [](NextBatch next) { return next; };

  // Whether this rank has been asked to stop; from the training thread, often.
  std::function<bool()> stop_requested = [] { return false; };
};

struct TrainReport {
  std::optional<Evaluation> evaluation;  // of the weights at the end
  RunState state;                        // there
  int64_t updates = 0;
  bool stopped = false;              // as was asked for, before its end
  std::filesystem::path checkpoint;  // rank 0: the last one on the disk; empty: none was written here
  int64_t checkpoint_step = -1;      // its
  int64_t samples = 0;               // over all ranks, here
  double seconds = 0;                // here, saves included, evaluations not
};

// Those of this rank.
struct Samplers {
  DistributedSampler train, test;
  // Sequential over the first of the training samples: where it is given, statistics of batch norms are recomputed
  // over them before an evaluation.
  std::optional<DistributedSampler> statistics;

  std::vector<int64_t> batch_sizes() const;  // that occur, at least one
};

// Whom the run tells how it gets on.
struct Observers {
  Reporter& reporter;
  PhaseTracker& phases;
  CheckpointWriter* writer = nullptr;  // of rank 0; null: nothing is saved
};

// That the whole run has.
int64_t total_steps(const TrainConfig& config, const DistributedSampler& sampler);

// Collective. A run that is asked to stop saves first.
TrainReport train(const TrainConfig& config, Replica& replica, const Datasets& data, const Samplers& samplers,
                  const Observers& observers);

}  // namespace ddp
