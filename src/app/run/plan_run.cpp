#include "app/run/plan_run.h"

#include "app/commands/doctor/doctor.h"
#include "app/machine/gpus.h"
#include "app/machine/threads.h"
#include "app/options/options.h"
#include "app/run/measured_buckets.h"
#include "app/run/run_groups.h"
#include "app/run/settle_batch.h"
#include "app/run/single_values.h"
#include "comm/broadcast_host.h"
#include "health/abort.h"
#include "health/run_on_all_ranks.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace ddp {
namespace {

ReplicaConfig replica_config(const Job& job, const PixelNormalization& pixels) {
  ReplicaConfig config = job.options.replica;
  config.caps.cap_mb = job.options.bucket_cap_mb.value_or(config.caps.cap_mb);
  config.caps.first_cap_mb = job.options.first_bucket_mb.value_or(config.caps.first_cap_mb);
  config.batch_sizes = job.samplers.batch_sizes();
  config.seed = job.options.seed;
  config.groups = groups_of_run(job.options, parameters_of(job.network));
  config.pixel_scale = pixels.scale;
  config.augmentation = job.data.augmentation;
  config.excludes = job.data.excludes;
  config.class_weights = job.class_weights;
  return config;
}

// A resumed run does not measure again.
PixelNormalization pixels_of(const Job& job, const ResumePoint& resume_point) {
  if (job.data.pixels.kind == PixelStatistics::Kind::measured) {
    const auto earlier = run_on_all_ranks(
        job.session, [&] { return earlier_pixels(resume_point, job.data.data.train->image_shape().c); });
    if (earlier) return *earlier;
  }
  return measure_pixels(job.data, job.session, *job.world, reading_phase(job.phases));
}

// For each the largest possible one too, if the samplers are balanced.
std::vector<int64_t> evaluation_sizes(const Samplers& samplers) {
  std::vector<int64_t> sizes = samplers.test->local_batch_sizes();
  if (sizes.empty() || samplers.balanced) sizes.push_back(samplers.largest_shard(*samplers.test));
  return sizes;
}

// A model for evaluations. `arena` is that of a model which never computes at the same time.
std::unique_ptr<Model> inference_model(const Job& job, const Network& network, const float* weights,
                                       const float* running_stats, const Buffer& arena, const Replica& replica,
                                       const PixelNormalization& pixels) {
  ModelConfig config;
  config.inference = true;
  config.pixel_scale = pixels.scale;
  return std::make_unique<Model>(
      network, replica.parameters, replica.batch_norms, evaluation_sizes(job.samplers), replica.device, replica.ops,
      ModelMemory{.weights = weights, .running_stats = running_stats, .arena = &arena}, config);
}

std::unique_ptr<Model> validation_model(const Job& job, const Replica& replica, const PixelNormalization& pixels) {
  if (!job.validation_network || !job.samplers.test) return nullptr;
  return inference_model(job, *job.validation_network, replica.weights(), replica.running_stats(),
                         replica.model.arena(), replica, pixels);
}

std::unique_ptr<Model> average_model(const Job& job, const Replica& replica, const Model* of_validation,
                                     const PixelNormalization& pixels) {
  if (!replica.average || !job.samplers.test) return nullptr;
  const bool has_arena = of_validation && of_validation->arena().bytes() > 0;
  return inference_model(job, of_validation ? *job.validation_network : job.network, replica.average->weights(),
                         replica.average->running_stats(), (has_arena ? *of_validation : replica.model).arena(),
                         replica, pixels);
}

BatchDivision division_of(const Job& job, const std::vector<double>& weights) {
  return {.samples = job.samplers.train.samples(),
          .batch = job.options.batch.size,
          .micro_batches = job.options.train.step.micro_batches,
          .rank_weights = weights,
          .sync_bn = job.options.replica.sync_bn};
}

void check_int8(const Job& job, bool on_gpus) {
  const auto transport = choose_transport(job.options.transport.kind, on_gpus);
  run_on_all_ranks(job.session, [&] {
    require(job.options.replica.grad_dtype != GradDType::int8 || transport == TransportKind::mpi, Exit::usage,
            "--grad-dtype int8 needs --transport mpi: NCCL sums no int8 with a scale");
  });
}

// Whether each batch norm has several values in the last step of an epoch. Warns if not. Throws where one has a single
// value in every step.
bool check_single_values(const Job& job) {
  return run_on_all_ranks(job.session, [&] {
    const Options& options = job.options;
    const BatchDivision division = division_of(job, job.samplers.train.weights());
    const auto found = find_single_value(job.network, division);
    if (!found) return true;
    require(!found->every_step, Exit::usage, "{}", explain(*found, division));
    const bool reaches_it = total_steps(options.train, job.samplers.train) >= job.samplers.train.steps_per_epoch();
    if (reaches_it && job.session.rank() == 0) job.log.warn("{}", explain(*found, division));
    return false;
  });
}

// Rank 0 has a snapshot of the weights and of the optimizer's state, with --model-ema of the average too, and with
// gradients in int8 of the residuals of all `hosts`. It writes files a tensor at a time; on a GPU, from one more copy
// of the weights. With gradients in int8, each rank keeps two residuals. Returns what check_single_values() does for
// the batch that is found.
bool find_batch(Job& job, const PixelNormalization& pixels, const Backend& backend, int threads, int hosts) {
  settle_batch(job, backend, threads, [&](Device& device, Ops& ops, Communicator& alone) {
    Replica replica(job.network, replica_config(job, pixels), device, ops, alone);
    const auto of_validation = validation_model(job, replica, pixels);
    const auto of_average = average_model(job, replica, of_validation.get(), pixels);
    const int64_t copies = (replica.average ? 2 : 1) + (device.is_host() ? 0 : 1);
    const int64_t residuals = job.options.replica.grad_dtype == GradDType::int8 && hosts > 1 ? hosts + 2 : 0;
    const int64_t tensor = std::ranges::max(replica.parameters, {}, &Parameter::count).count;
    return static_cast<int64_t>(bytes_of_floats(
        copies * replica.weights_count + (replica.optimizer.states() + residuals) * replica.plan.gradients + tensor));
  });
  return check_single_values(job);
}

// Those of the file of rank 0. Collective.
MeasuredEngines known_engines(const Job& job, const Backend& backend) {
  const std::string& file = backend.config.engine_file;
  if (file.empty()) return {};
  std::string content =
      run_on_all_ranks(job.session, [&] { return job.session.rank() == 0 ? read_engine_file(file) : std::string(); });
  broadcast_host(*job.world, content);
  return engines_of(content, backend.identity);
}

// Adds what rank 0 has measured to its file.
void keep_engines(int rank, const Backend& backend, const AutotuneCache& autotune, MeasuredEngines engines) {
  const std::string& file = backend.config.engine_file;
  if (rank != 0 || file.empty() || autotune.passes().empty()) return;
  for (const MeasuredPass& pass : autotune.passes())
    if (!pass.fastest.empty()) engines[pass.name] = pass.fastest;
  write_engine_file(file, backend.identity, engines);
}

}  // namespace

PlannedRun plan_run(Job& job, ResumePoint resume_point) {
  const Options& options = job.options;
  MpiSession& session = job.session;
  Communicator& world = *job.world;
  bool last_step_learns = options.batch.largest || check_single_values(job);

  Backend backend = make_backend(options.device, options.transport, session);
  if (!backend.compiling.empty()) job.log.info("{}", backend.compiling);
  const bool on_cpu = backend.device->is_host();
  check_int8(job, !on_cpu);
  const int threads = on_cpu ? choose_threads(options.device.threads, world, session.host()) : 1;
  doctor::preflight(options.device, options.transport, session, !on_cpu, job.log);

  auto autotune = std::make_unique<AutotuneCache>(earlier_autotune(resume_point, backend, world));
  const MeasuredEngines known = known_engines(job, backend);
  auto ops = run_on_all_ranks(session, [&] { return make_ops(backend, world, threads, *autotune, known); });
  PixelNormalization pixels = pixels_of(job, resume_point);
  auto own_transport =
      make_transport(backend, session, world, trained_state_count(batch_norm_states_of(job.network)) > 0);
  Communicator& transport = own_transport ? *own_transport : world;
  if (options.batch.largest) last_step_learns = find_batch(job, pixels, backend, threads, transport.place().hosts);
  auto replica = abort_on_error(session, [&] {
    return std::make_unique<Replica>(job.network, replica_config(job, pixels), *backend.device, *ops, transport);
  });
  auto costs = set_measured_buckets(
      job, resume_point, run_fingerprint(options, job.data, pixels, backend, threads, *replica, *autotune), *replica);
  auto of_validation = abort_on_error(session, [&] { return validation_model(job, *replica, pixels); });
  auto of_average = abort_on_error(session, [&] { return average_model(job, *replica, of_validation.get(), pixels); });
  run_on_all_ranks(session, [&] { keep_engines(session.rank(), backend, *autotune, known); });
  return {.backend = std::move(backend),
          .threads = threads,
          .resume_point = std::move(resume_point),
          .autotune = std::move(autotune),
          .ops = std::move(ops),
          .own_transport = std::move(own_transport),
          .pixels = std::move(pixels),
          .replica = std::move(replica),
          .validation_model = std::move(of_validation),
          .average_model = std::move(of_average),
          .costs = std::move(costs),
          .last_step_learns = last_step_learns};
}

// The largest size decides on the algorithms of all, and it stays.
void plan_models(const Job& job, const PlannedRun& run, const Samplers& samplers) {
  run.autotune->repeat();
  Replica& replica = *run.replica;
  const auto plan = [&](Model& model, const Network& network, const std::vector<int64_t>& sizes) {
    model.plan(network, replica.parameters, replica.batch_norms, sizes);
  };
  const Network& evaluated = job.validation_network ? *job.validation_network : job.network;
  plan(replica.model, job.network, samplers.batch_sizes());
  if (run.validation_model) plan(*run.validation_model, evaluated, evaluation_sizes(samplers));
  if (run.average_model) plan(*run.average_model, evaluated, evaluation_sizes(samplers));
}

bool allows_weights(const Job& job, const std::vector<double>& weights) {
  const auto found = find_single_value(job.network, division_of(job, weights));
  if (!found) return true;
  return !found->every_step &&
         find_single_value(job.network, division_of(job, std::vector<double>(weights.size(), 1.0))).has_value();
}

Watchdog::MonitorGuard monitor_steps(const Job& job, const Replica& replica) {
  const int buckets = static_cast<int>(replica.plan.buckets.size());
  const int others = replica.reducer.collectives() - buckets + replica.optimizer.collectives();
  return job.watchdog->monitor(replica.communicator, replica.bn_communicator.get(), buckets, others);
}

}  // namespace ddp
