// The steps of a run: the epoch of a step, its learning rate, and what is due after it. Pure functions of the
// configuration and the sampler of the training. A step k is the k-th of the run, from 1.
#pragma once

#include "checkpoint/run_state.h"
#include "data/sampler.h"
#include "train/trainer.h"

#include <cstdint>

namespace ddp {

class RunSteps {
 public:
  RunSteps(const TrainConfig& config, const DistributedSampler& sampler);  // both outlive this object

  int64_t total() const { return total_; }
  int64_t epoch_of(int64_t step) const { return (step + per_epoch_ - 1) / per_epoch_; }  // from 1
  bool end_epoch(int64_t step) const { return step % per_epoch_ == 0; }
  bool end_run(int64_t step) const { return step == total_; }
  int64_t in_epoch(int64_t step) const { return step % per_epoch_; }  // steps of the epoch in progress
  int64_t samples_in_epoch(int64_t step) const;                       // samples of these steps

  bool compare_replicas(int64_t step) const;  // asked for by --check-every
  // Evaluations that --eval-every asks for, and these with the one more at the end of the run.
  bool evaluate_regularly(int64_t step) const;
  bool evaluate(int64_t step) const;

  // `state`: before the step.
  double lr(int64_t step, const RunState& state) const;
  double average_rate(int64_t step) const;  // of a replica with an average

 private:
  const TrainConfig& config_;
  const int64_t samples_, batch_, per_epoch_, total_;
  const AverageConfig average_;
};

}  // namespace ddp
