#include "app/run/restore_run.h"

#include "app/inputs/reading.h"
#include "app/options/resume.h"
#include "app/run/changes_file.h"
#include "app/run/injection.h"
#include "app/run/resume_point.h"
#include "app/run/samplers.h"
#include "comm/broadcast_host.h"
#include "core/durable_file.h"
#include "core/printable.h"
#include "health/run_on_all_ranks.h"
#include "train/fault_injection.h"
#include "train/step/replica.h"

#include <cstdint>
#include <string>
#include <utility>

namespace ddp {
namespace {

// The state of the first step: the resume point's counters with the fingerprint of this run.
RunState start_of(const ResumePoint& resume_point, const RunState& fingerprint, const LoadedData& data,
                  const DistributedSampler& sampler) {
  RunState start = resume_point.state;
  if (start.balance && !start.balance->shares.empty() && !fit(*start.balance, sampler)) start.balance.reset();
  start.pictures = data.pictures;
  start.affects_results = fingerprint.affects_results;
  start.affects_rounding = fingerprint.affects_rounding;
  start.autotune = fingerprint.autotune;
  start.options = fingerprint.options;
  return start;
}

// `replica` and `fault` outlive `config`.
void inject(const FaultInjection& fault, const Job& job, Replica& replica, TrainConfig& config) {
  const int64_t done = config.start.step, total = total_steps(config, job.samplers.train);
  run_on_all_ranks(job.session, [&] { require_it_happens(fault, job.options.inject, config.save_every, done, total); });
  config.batch_source = [&fault, &replica, done](NextBatch next) {
    return with_fault(fault, replica, done, std::move(next));
  };
}

TrainConfig train_config(const Job& job, const PlannedRun& run) {
  const Options& options = job.options;
  TrainConfig config = options.train;
  config.data_placement = placement_for(options, job.data.workers, job.log);
  if (!job.data.data.test) config.eval_every = 0;
  config.evaluation_model = run.validation_model.get();
  config.average_model = run.average_model.get();
  config.last_step_learns = run.last_step_learns;
  config.plan_models = [&job, &run](const Samplers& samplers) { plan_models(job, run, samplers); };
  config.may_have_weights = [&job](const std::vector<double>& weights) { return allows_weights(job, weights); };
  config.train_exclusions = job.data.train_exclusions.get();
  config.test_exclusions = job.data.data.test ? job.data.test_exclusions.get() : nullptr;
  return config;
}

}  // namespace

RestoredRun restore_run(const Job& job, PlannedRun& run) {
  const Options& options = job.options;
  ResumePoint& resume_point = run.resume_point;
  TrainConfig config = train_config(job, run);

  const RunState now =
      run_fingerprint(options, job.data, run.pixels, run.backend, run.threads, *run.replica, *run.autotune, run.costs);
  config.updates = restore_or_initialize(job, resume_point, now, *run.replica);
  run.replica->check_replicas();
  run_on_all_ranks(job.session, [&] {
    if (job.session.rank() == 0 && resume_point.resuming)
      require_possible(resume_point.state, job.samplers.train.steps_per_epoch(),
                       job.samplers.train.global_batch_size(0), printable(resume_point.checkpoint.native()));
  });
  config.start = start_of(resume_point, now, job.data, job.samplers.train);
  config.checkpoint = resume_point.checkpoint;
  if (job.injection) inject(*job.injection, job, *run.replica, config);

  OutputFolder folder = run_on_all_ranks(job.session, [&] {
    return open_folder(options.output.dir, !options.checkpoint.resume.empty(), options.effective_config, resume_point,
                       job.session.rank());
  });
  run_on_all_ranks(job.session, [&] {
    if (folder.path().empty()) return;
    for (const auto& [name, content] : job.data.listings) replace_file(folder.path() / name, content);
    const ModelFile& model = options.network.source;
    if (!model.built_in) replace_file(folder.path() / "model.toml", model.text);
    if (resume_point.resuming)
      write_changes(folder.path(), read_changes(folder.path()), resume_point.changes, resume_point.state);
  });
  std::string path = folder.path().string();
  broadcast_host(*job.world, path);
  int64_t saved_there = is_same_run(folder.path(), resume_point);
  broadcast_host(*job.world, {&saved_there, 1});
  config.start_is_saved = saved_there != 0;
  return {.config = std::move(config), .folder = std::move(folder), .path = std::move(path)};
}

}  // namespace ddp
