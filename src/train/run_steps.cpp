#include "train/run_steps.h"

#include "train/step/schedule.h"
#include "train/step/weight_average.h"

namespace ddp {
namespace {

AverageConfig average_of(const TrainConfig& config) {
  AverageConfig average = config.average;
  average.warm_up_epochs = config.schedule.warm_up_epochs;
  return average;
}

}  // namespace

RunSteps::RunSteps(const TrainConfig& config, const DistributedSampler& sampler)
    : config_(config),
      samples_(sampler.samples()),
      batch_(sampler.global_batch_size(0)),
      per_epoch_(sampler.steps_per_epoch()),
      total_(total_steps(config, sampler)),
      average_(average_of(config)) {}

int64_t RunSteps::samples_in_epoch(int64_t step) const { return in_epoch(step) * batch_; }

bool RunSteps::compare_replicas(int64_t step) const {
  return config_.check_every > 0 && step % config_.check_every == 0;
}

bool RunSteps::evaluate_regularly(int64_t step) const {
  return config_.eval_every > 0 && end_epoch(step) && epoch_of(step) % config_.eval_every == 0;
}

bool RunSteps::evaluate(int64_t step) const {
  return evaluate_regularly(step) || (config_.eval_every > 0 && end_run(step));
}

double RunSteps::lr(int64_t step, const RunState& state) const {
  const int64_t done = step - 1, seen = done / per_epoch_ * samples_ + samples_in_epoch(done);
  const double lr = lr_at(config_.schedule, seen, samples_);
  return state.plateau ? lr * state.plateau->factor : lr;
}

double RunSteps::average_rate(int64_t step) const { return ddp::average_rate(average_, step, per_epoch_); }

}  // namespace ddp
