// The training loop: epochs of steps with evaluations and checkpoints, until the run has ended or a stop is requested.
#pragma once

#include "checkpoint/run_state.h"
#include "checkpoint/writer.h"
#include "data/dataset.h"
#include "data/exclusions.h"
#include "data/sampler.h"
#include "ddp/step_speed.h"
#include "health/phase_tracker.h"
#include "train/evaluation/evaluation.h"
#include "train/observers/compute_times.h"
#include "train/observers/run_observer.h"
#include "train/observers/run_trace.h"
#include "train/saving/save_schedule.h"
#include "train/step/prefetcher.h"
#include "train/step/replica.h"
#include "train/step/schedule.h"
#include "train/step/step_result.h"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <vector>

namespace ddp {

struct Samplers;

struct TrainConfig {
  int64_t epochs = 10;
  int64_t max_steps = 0;  // steps of the whole run; 0: all steps of the epochs
  int64_t eval_every =
      1;  // epochs between evaluations, one more at the end of the run; 0: no evaluation. Needs test data
  int64_t check_every = 0;  // steps between replica checks, besides those at each epoch's end; 0: no further checks
  ScheduleDesc schedule;    // learning rate
  StepConfig step;          // the trainer sets the fields that a resumed run needs
  SaveEvery save_every;     // unless never, the end of the run is saved too
  bool keep_best = false;   // saves after each evaluation that is the best so far (judge())
  int64_t early_stop = 0;   // evaluations in a row without a better one that end the run; 0: none. Needs test data
  DataPlacement data_placement = {};
  // Pictures that cannot be read: those of the training and of the test data. Null: an unreadable sample ends the job
  // at once. Unless the replica excludes them, the run is saved and ends with Exit::data.
  Exclusions* train_exclusions = nullptr;
  Exclusions* test_exclusions = nullptr;
  // Evaluates in place of the replica's model, for images of another size. It is bound to the replica's weights.
  Model* evaluation_model = nullptr;
  AverageConfig average = {};      // of a replica with an average; the trainer sets warm_up_epochs
  Model* average_model = nullptr;  // for inference, bound to the replica's average; null: there is none
  bool last_step_learns = true;    // false: the gradients of the last step of an epoch are not reported

  RunState start = {};                    // state at the start of this process; a resumed run's is its checkpoint's
  bool start_is_saved = false;            // `start` is in a checkpoint of the folder that the writer writes to
  std::filesystem::path checkpoint = {};  // rank 0: path of that checkpoint
  int64_t updates = 0;                    // updates of the running statistics so far

  // Decorates the source of the run's batches, for fault injection. Called once, after the Step is constructed: the
  // decorator may wrap the launch hook, which the end of the Step restores.
  std::function<NextBatch(NextBatch)> batch_source = [](NextBatch next) { return next; };

  // Of balanced samplers. Plans the models of the run, for Samplers::batch_sizes(), while no device work is in flight.
  std::function<void(const Samplers&)> plan_models = {};
  // Whether shards may have these weights.
  std::function<bool(const std::vector<double>& weights)> may_have_weights = [](const std::vector<double>&) {
    return true;
  };
  // Replaces the measured samples/s of all ranks after an epoch; null: never. For tests.
  std::function<void(int64_t epoch, std::vector<double>& speeds)> replace_speeds = {};

  // Whether a stop of this rank was requested. The training thread calls it at least once a step.
  std::function<bool()> stop_requested = [] { return false; };
};

struct TrainReport {
  std::optional<Evaluation> evaluation;      // the last evaluation of this process
  std::optional<ClassCounts> classes;        // of that evaluation, of images; none where the run was stopped
  int64_t sequence_length = 0;               // of the training data, as Dataset::sequence_length()
  RunState state;                            // state at the end of this process's run
  int64_t updates = 0;                       // updates of the running statistics in the whole run
  bool stopped = false;                      // stopped early on request
  std::optional<EarlyStopState> early_stop;  // of a run that --early-stop has ended before its last step
  std::filesystem::path checkpoint;          // rank 0: path of the last checkpoint on the disk; empty: none
  int64_t checkpoint_step = -1;              // step of `checkpoint`; -1: none
  int64_t samples = 0;                       // samples of this process's run, over all ranks
  // Training time in s of this process's run, with saves and the trace, without evaluations and measurements of the
  // speed.
  double seconds = 0;
  std::optional<StepSpeed> speed;  // of the steps of this process; none: too few
  std::vector<double> compute_ms;  // of steps of this rank in this process (ComputeTimes)
  double data_ms = 0;              // mean wait for data of these steps
  // Of the ranks, for which the models are planned at the end. `compute_ms` and `data_ms` are of steps with them.
  std::vector<double> rank_weights;
};

// Samplers of this rank.
struct Samplers {
  DistributedSampler train;
  std::optional<DistributedSampler> test;  // none without test data
  // Sequential over a subset of the training data. If present, precise batch norm statistics are computed over it
  // before each evaluation.
  std::optional<DistributedSampler> statistics;
  // The weights follow the measured speeds of the ranks, from epoch to epoch (--rank-weights auto). They begin with
  // those of TrainConfig::start.
  bool balanced = false;

  void set_weights(const std::vector<double>& weights);
  // All local batch sizes above 0, at least one size; of balanced samplers the largest possible ones too.
  std::vector<int64_t> batch_sizes() const;
  int64_t largest_shard(const DistributedSampler& sampler) const;  // one of these; the largest possible one if balanced
};

// Receivers of the run's events, phases and snapshots.
struct Observers {
  RunObserver& reporter;
  PhaseTracker& phases;
  CheckpointWriter* writer = nullptr;  // of rank 0; null on other ranks, or to save nothing
  RunTrace* trace = nullptr;           // null: none

  // Called in the handler of an error that ends the training, before the memory that the device uses is freed, which
  // waits for the device. May throw another error.
  std::function<void()> on_error = [] {};
};

// Optimizer steps in the whole run.
int64_t total_steps(const TrainConfig& config, const DistributedSampler& sampler);

// Whether a run of so many steps has ended in an earlier process.
bool has_ended(const TrainConfig& config, int64_t total);

// Collective. A requested stop saves a checkpoint first, as does an end because of pictures that cannot be read:
// CollectiveError(Exit::data).
TrainReport train(const TrainConfig& config, Replica& replica, const Datasets& data, const Samplers& samplers,
                  const Observers& observers);

}  // namespace ddp
