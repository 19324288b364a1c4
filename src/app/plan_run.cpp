#include "app/plan_run.h"

#include "app/doctor/doctor.h"
#include "app/options/options.h"
#include "app/threads.h"
#include "health/abort.h"
#include "health/run_on_all_ranks.h"

#include <utility>

namespace ddp {
namespace {

ReplicaConfig replica_config(const Job& job) {
  ReplicaConfig config = job.options.replica;
  config.batch_sizes = job.samplers.batch_sizes();
  config.seed = job.options.seed;
  return config;
}

}  // namespace

PlannedRun plan_run(const Job& job) {
  const Options& options = job.options;
  MpiSession& session = job.session;
  Communicator& world = *job.world;

  Backend backend = make_backend(options.device, options.transport, session);
  const bool on_cpu = backend.device->is_host();
  const int threads = on_cpu ? choose_threads(options.device.threads, world, session.host()) : 1;
  doctor::preflight(options.device, options.transport, session, !on_cpu, job.log);

  ResumePoint resume_point = find_resume_point(options.checkpoint.resume, options.output.dir, session, world, job.log);
  auto autotune = std::make_unique<AutotuneCache>(earlier_autotune(resume_point, backend, world));
  auto ops = run_on_all_ranks(session, [&] { return make_ops(backend, world, threads, *autotune); });

  auto own_transport = make_transport(backend, session, world);
  Communicator& transport = own_transport ? *own_transport : world;
  auto replica = abort_on_error(session, [&] {
    return std::make_unique<Replica>(job.network, replica_config(job), *backend.device, *ops, transport);
  });
  return {.backend = std::move(backend),
          .threads = threads,
          .resume_point = std::move(resume_point),
          .autotune = std::move(autotune),
          .ops = std::move(ops),
          .own_transport = std::move(own_transport),
          .replica = std::move(replica)};
}

}  // namespace ddp
