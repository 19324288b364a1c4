#include "app/commands/doctor/doctor.h"

#include "app/commands/doctor/check_runner.h"
#include "app/commands/doctor/checks.h"
#include "app/commands/doctor/measure.h"
#include "app/commands/doctor/report.h"
#include "app/inputs/load_data.h"
#include "app/machine/factory.h"
#include "app/machine/gpus.h"
#include "app/run/make_network.h"
#include "app/run/samplers.h"
#include "app/run/share_model.h"
#include "app/run/token_options.h"
#include "core/stopwatch.h"
#include "device/cpu/device.h"
#include "health/diagnosis.h"
#include "health/run_on_all_ranks.h"

#include <filesystem>
#include <functional>
#include <optional>
#include <string_view>
#include <utility>

namespace ddp::doctor {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::seconds kLimit{20};
// A run lists and checks the same data in its start-up.
constexpr std::chrono::milliseconds kLimitOfData = WatchdogLimits().start_up;
// NCCL has its own, shorter limits, whose messages say more; a sleeping driver starts slowly.
constexpr std::chrono::seconds kLimitOfNccl{150};

std::string own_facts(int threads, MpiSession& session, bool gpus) {
  return to_text(facts_of_rank(threads, session.heartbeats().host_of(session.rank()), session.local_rank(), gpus));
}

std::vector<RankFacts> all_facts(const std::vector<std::string>& texts) {
  std::vector<RankFacts> ranks;
  for (const std::string& text : texts) ranks.push_back(facts_from(text));
  return ranks;
}

Findings joined(const std::vector<Findings>& each) {
  Findings all;
  for (const Findings& some : each) all.insert(all.end(), some.begin(), some.end());
  return all;
}

std::string launcher_of(const std::optional<ExpectedWorld>& expected) { return expected ? expected->launcher : ""; }

fs::path output_folder_of(const Options& o) {
  if (!o.output.dir.empty()) return o.output.dir;
  if (o.checkpoint.resume.empty()) return "runs";
  const fs::path path = o.checkpoint.resume;
  return path.parent_path().filename() == "checkpoints" ? path.parent_path().parent_path() : path;
}

std::string other_allreduce(const TransportConfig& config) {
  return config.allreduce == Allreduce::mpi ? "--allreduce auto" : "--allreduce mpi";
}

Findings check_host_allreduce(const TransportConfig& config, MpiSession& session, bool on_gpus) {
  const auto device = make_cpu_device();
  const auto world = session.world(config.allreduce);
  const bool needs_mpi = choose_transport(config.kind, on_gpus) == TransportKind::nccl;
  return check_allreduce(try_allreduce(*device, *world), world->description(),
                         fmt::format("ddp_train {}{}", needs_mpi ? "--transport mpi " : "", other_allreduce(config)));
}

Findings check_gpu_allreduce(MpiSession& session, const Backend& backend) {
  const TransportConfig& config = backend.transport;
  const auto host = session.world(config.allreduce);
  const auto transport = make_transport(backend, session, *host, false);
  const bool over_mpi = choose_transport(config.kind, true) == TransportKind::mpi;
  return check_allreduce(try_allreduce(*backend.device, *transport), describe_transport(backend, *transport),
                         fmt::format("ddp_train {}", over_mpi ? other_allreduce(config) : "--transport mpi"));
}

// The findings of `work`, or a fault with the CollectiveError that it throws.
Findings findings_or_refusal(const char* check, const std::function<Findings()>& work) {
  try {
    return work();
  } catch (const CollectiveError& error) {
    const bool of_data = error.code() == Exit::data && std::string_view(check) == "data";
    Finding refused = of_data ? fault(Exit::data, error.what(), "ddp_train --data-path FOLDER")
                              : hint("ddp_train --help", fault(error.code(), error.what()));
    return with_found({std::move(refused)}, check, "refused");
  }
}

DataConfig data_for_network(const Options& options, MpiSession& session) {
  DataConfig data = options.data;
  NetworkConfig network = options.network;
  try {
    share_model(network, session);
    data.default_sequence_length = default_sequence_length(network, data.vocabulary_size);
  } catch (const CollectiveError&) {
    return data;  // check_options() reports the network
  }
  return data;
}

Findings check_data(const Options& options, MpiSession& session, std::optional<LoadedData>& loaded) {
  return findings_or_refusal("data", [&] {
    const auto world = session.world(Allreduce::automatic);
    loaded = load_data(data_for_network(options, session), options.seed, session, *world, Log(session.rank()));
    const auto& [train, test] = loaded->data;
    return all_ok("data", fmt::format("{}: {} training and {} test {}", loaded->kind, train->size(),
                                      test ? test->size() : 0, describe_samples(*train)));
  });
}

// Returns findings for problems only.
Findings check_options(const Options& options, MpiSession& session, const std::optional<LoadedData>& data,
                       const std::function<void()>& make_device) {
  return findings_or_refusal("options", [&]() -> Findings {
    NetworkConfig network = options.network;
    share_model(network, session);
    run_on_all_ranks(session, [&] { return weights_of_ranks(options.batch, session.size()); });
    if (data)
      run_on_all_ranks(session, [&] {
        if (data->data.train->sequence_length() > 0) require_options_for_tokens(options);
        return make_network(network, options.replica.sync_bn, *data->data.train);
      });
    make_device();
    return {};
  });
}

}  // namespace

Exit run_doctor(const Options& options, MpiSession& session, std::unique_ptr<TimeLimit> startup_limit) {
  CheckRunner runner(options.action.json, options.step_timeout, options.inject, session);
  startup_limit.reset();
  std::vector<RankFacts> ranks;
  bool on_gpus = false, gpus_at_fault = false;
  runner.check("machine", options.device.kind == DeviceKind::cpu ? kLimit : kLimitOfNccl, [&] {
    const std::string mine = own_facts(options.device.threads, session, options.device.kind != DeviceKind::cpu);
    runner.await_others();
    ranks = all_facts(session.gather(mine));
    on_gpus = runs_on_gpus(ranks, options.device.kind);
    const auto expected = expected_world(environment_of_process());
    const std::string launcher = launcher_of(expected);
    const Findings gpus = check_gpus(ranks, options.device, launcher);
    gpus_at_fault = code_of(gpus) != Exit::done;
    return joined({check_world(ranks, expected), check_cores(ranks, on_gpus, launcher),
                   check_shared_memory(ranks, on_gpus), check_locked_memory(ranks, on_gpus), gpus,
                   check_nccl_variables(ranks, options.device, options.transport, on_gpus, launcher),
                   check_interfaces(ranks, on_gpus)});
  });
  runner.check("clocks", kLimit, [&] {
    std::vector<std::string> hosts;
    for (const RankFacts& rank : ranks) hosts.push_back(rank.host);
    const auto world = session.world(Allreduce::automatic);
    return check_clocks(measure_clocks(*world, wall_seconds), hosts);
  });
  runner.check("output folder", kLimit,
               [&] { return session.rank() == 0 ? check_output(try_output(output_folder_of(options))) : Findings{}; });
  std::optional<LoadedData> data;
  runner.check("data", kLimitOfData, [&] { return check_data(options, session, data); });
  runner.check("allreduce", kLimit, [&] { return check_host_allreduce(options.transport, session, on_gpus); });

  std::optional<Backend> backend;
  runner.check("options", kLimitOfNccl, [&] {
    return check_options(options, session, data, [&] {
      if (!gpus_at_fault) backend = make_backend(options.device, options.transport, session);
    });
  });
  if (backend && !backend->device->is_host())
    runner.check("allreduce", kLimitOfNccl, [&] { return check_gpu_allreduce(session, *backend); });
  return runner.end();
}

void preflight(const DeviceConfig& device, const TransportConfig& transport, MpiSession& session, bool on_gpus,
               const Log& log) {
  const auto texts = session.gather(own_facts(device.threads, session, false));
  if (session.rank() != 0) return;
  const std::vector<RankFacts> ranks = all_facts(texts);
  const std::string launcher = launcher_of(expected_world(environment_of_process()));
  const Findings findings = joined({check_cores(ranks, on_gpus, launcher), check_shared_memory(ranks, on_gpus),
                                    check_nccl_variables(ranks, device, transport, on_gpus, launcher),
                                    check_interfaces(ranks, on_gpus, false)});
  for (const Finding& finding : findings)
    if (finding.verdict != Verdict::ok) log.warn("{}: {}", finding.check, line_of(finding));
}

}  // namespace ddp::doctor
