#include "app/run.h"

#include "app/autotune_cache.h"
#include "app/banner.h"
#include "app/doctor/doctor.h"
#include "app/factory.h"
#include "app/injection.h"
#include "app/load_data.h"
#include "app/make_network.h"
#include "app/make_reporter.h"
#include "app/options.h"
#include "app/output_folder.h"
#include "app/results.h"
#include "app/resume_point.h"
#include "app/samplers.h"
#include "app/threads.h"
#include "checkpoint/folder.h"
#include "comm/broadcast_host.h"
#include "core/error.h"
#include "core/log.h"
#include "data/sampler.h"
#include "ddp/hash.h"
#include "ddp/replica_check.h"
#include "health/abort.h"
#include "health/flight_recorder.h"
#include "health/run_on_all_ranks.h"
#include "health/watchdog.h"
#include "health/watchdog_limits.h"
#include "train/fault_injection.h"
#include "train/plan_report.h"
#include "train/replica.h"
#include "train/reporter.h"
#include "train/trainer.h"

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace ddp {
namespace fs = std::filesystem;

namespace {

uint64_t hash_of(const std::string& text) {
  Hash hash;
  for (const char c : text) hash.add(static_cast<unsigned char>(c));
  return hash.value();
}

void print_order(const DistributedSampler& sampler, int64_t epoch) {
  for (int64_t i = 0; i < sampler.samples(); ++i) fmt::print("{}\n", sampler.sample(epoch - 1, i));
}

// Number of collectives of a step after its buckets.
int trailing_collectives(const Replica& replica) {
  return replica.reducer.collectives() - static_cast<int>(replica.plan.buckets.size()) +
         replica.optimizer.collectives();
}

// Builds the parts of a run in order and trains. Each part is freed on return, in reverse order; main() ends MPI later.
//
// run_on_all_ranks: each rank works alone; where one fails, all ranks throw the same error.
// abort_on_error: the ranks communicate; an error of one rank aborts the job (MPI_Abort), so that no rank is left
// waiting.
Exit run_training(const Options& options, MpiSession& session, Signals& signals, PhaseTracker& phases,
                  FlightRecorder& flight_recorder, const Log& log) {
  const int rank = session.rank();
  Watchdog watchdog(limits_of(options.step_timeout, rank), phases, [&](const std::string& text) {
    abort_job(session, fmt::format("on {}: {}", session.host(), text), Exit::communication);
  });
  const std::unique_ptr<Communicator> world = session.world(options.transport.allreduce);
  check_same_on_all_ranks(hash_of(options.effective_config), "configuration", *world);
  const auto rank_weights = run_on_all_ranks(session, [&] { return weights_of_ranks(options, session.size()); });
  const auto injection = run_on_all_ranks(session, [&] { return injection_of(options.inject, session.size()); });
  const Datasets data = run_on_all_ranks(session, [&] { return load_data(options.data); });
  const uint64_t data_fingerprint = fingerprint(data);
  check_same_on_all_ranks(data_fingerprint, "data set", *world);
  const Network network = run_on_all_ranks(session, [&] { return make_network(options, *data.train); });
  const Samplers samplers = make_samplers(options, data, !batch_norm_states_of(network).empty(), rank, rank_weights);
  if (options.action.print_order) {
    if (rank == 0) print_order(samplers.train, *options.action.print_order);
    return Exit::done;
  }

  const Backend backend = make_backend(options.device, options.transport, session);
  const int threads = backend.device->is_host() ? choose_threads(options.device.threads, *world, session.host()) : 1;
  doctor::preflight(options, session, !backend.device->is_host(), log);
  ResumePoint resume_point = find_resume_point(options, session, *world, log);
  AutotuneCache autotune(earlier_autotune(resume_point, backend, *world));
  const auto ops = run_on_all_ranks(session, [&] { return make_ops(backend, *world, threads, autotune); });
  const auto own_transport = make_transport(backend, session, *world);
  Communicator& transport = own_transport ? *own_transport : *world;
  ReplicaConfig replica_config = options.replica;
  replica_config.batch_sizes = samplers.batch_sizes();
  replica_config.seed = options.seed;
  const auto owned_replica = abort_on_error(
      session, [&] { return std::make_unique<Replica>(network, replica_config, *backend.device, *ops, transport); });
  Replica& replica = *owned_replica;
  if (options.action.plan) {
    log.info("{}", abort_on_error(session, [&] { return plan_report(replica, samplers.train); }));
    return Exit::done;
  }

  TrainConfig config = options.train;
  config.device_data_bytes = static_cast<size_t>(options.device.data_mb) << 20;
  config.stop_requested = [&] { return signals.stop_requested(); };
  const RunState now = run_fingerprint(options, data, data_fingerprint, backend, threads, replica, autotune);
  config.updates = restore_or_initialize(options, resume_point, now, replica, session, *world, log);
  replica.check_replicas();
  config.start = resume_point.state;
  if (injection) {
    run_on_all_ranks(session, [&] {
      require_it_happens(*injection, options.inject, config.save_every, config.start.step,
                         total_steps(config, samplers.train));
    });
    config.batch_source = [&, done = config.start.step](NextBatch next) {
      return with_fault(*injection, replica, done, std::move(next));
    };
  }
  config.start.affects_results = now.affects_results;
  config.start.affects_rounding = now.affects_rounding;
  config.start.autotune = now.autotune;

  const auto folder = run_on_all_ranks(session, [&] { return open_folder(options, resume_point, rank); });
  std::string path = folder.path().string();
  broadcast_host(*world, path);
  config.checkpoint = resume_point.checkpoint;
  int64_t saved_there = is_same_run(folder.path(), resume_point);
  broadcast_host(*world, {&saved_there, 1});
  config.start_is_saved = saved_there != 0;
  flight_recorder.set_run_folder(path);
  const std::string ranks = describe_ranks(backend, threads, session);
  log.info("{}", banner(options, replica, data, samplers, ranks, path));

  const auto reporter =
      run_on_all_ranks(session, [&] { return make_reporter(options.output, config, samplers.train, rank, path); });
  std::optional<CheckpointWriter> writer;
  const Tensors tensors{replica.parameters, replica.batch_norms};
  if (rank == 0)
    writer.emplace(CheckpointWriterConfig{.folder = checkpoints_of(folder.path()),
                                          .keep_last = options.checkpoint.keep_last,
                                          .about_to_write = injection ? full_disk(*injection, rank) : nullptr},
                   tensors);

  const TrainReport report = abort_on_error(session, [&] {
    const auto monitoring =
        watchdog.monitor(transport, replica.bn_communicator.get(), static_cast<int>(replica.plan.buckets.size()),
                         trailing_collectives(replica));
    return train(config, replica, data, samplers,
                 {.reporter = *reporter, .phases = phases, .writer = writer ? &*writer : nullptr});
  });
  if (report.stopped) {
    abort_on_error(session, [&] { reporter->close(); });
    return report_stop(session, signals, report, path, log);
  }
  abort_on_error(session, [&] {
    write_results(options.network.name, report, replica, samplers.train, log, path);
    reporter->close();
  });
  return Exit::done;
}

}  // namespace

Exit run(MpiSession& session, Signals& signals, int argc, char** argv,
         std::unique_ptr<doctor::TimeLimit> startup_limit) {
  const Log log(session.rank());
  std::optional<std::string> answer;
  const Options options = run_on_all_ranks(session, [&] { return parse_options(argc, argv, answer); });
  if (answer) {
    if (session.rank() == 0) fmt::print("{}", *answer);
    return Exit::done;
  }
  if (options.action.doctor) return doctor::run_doctor(options, session, std::move(startup_limit));
  PhaseTracker phases(session.heartbeats());
  FlightRecorder flight_recorder(session, signals, phases);
  return flight_recorder.write_on_error(
      [&] { return run_training(options, session, signals, phases, flight_recorder, log); });
}

}  // namespace ddp
