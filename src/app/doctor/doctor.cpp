#include "app/doctor/doctor.h"

#include "app/doctor/checks.h"
#include "app/doctor/measure.h"
#include "app/doctor/rounds.h"
#include "app/factory.h"
#include "device/cpu/device.h"

#include <algorithm>
#include <filesystem>

namespace ddp::doctor {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::seconds kLimit{20}, kLimitOfNccl{150};  // NCCL has limits of its own, and better words

std::string own_facts(const Options& options, MpiSession& session, bool gpus) {
  return to_text(facts_of_rank(options, session.board().host_of(session.rank()), session.local_rank(), gpus));
}

std::vector<RankFacts> all_facts(const std::vector<std::string>& texts) {
  std::vector<RankFacts> ranks;
  for (const std::string& text : texts) ranks.push_back(facts_from(text));
  return ranks;
}

std::string launcher_of(const std::optional<Promise>& promise) { return promise ? promise->launcher : ""; }

fs::path folder_of(const Options& o) {
  if (!o.output_dir.empty()) return o.output_dir;
  if (o.resume.empty()) return "runs";
  const fs::path path = o.resume;
  return path.parent_path().filename() == "checkpoints" ? path.parent_path().parent_path() : path;
}

Findings examine_host_sums(const Options& options, MpiSession& session) {
  const auto device = make_cpu_device();
  const auto world = session.world(options.allreduce);
  return judge_allreduce(try_allreduce(*device, *world),
                         options.allreduce == Allreduce::ring ? "MPI, our ring" : "MPI");
}

Findings examine_gpu_sums(const Options& options, MpiSession& session, const Backend& backend) {
  const auto host = session.world(options.allreduce);
  const auto transport = make_transport(options, backend, session, *host);
  return judge_allreduce(try_allreduce(*backend.device, *transport), describe_transport(options, backend));
}

}  // namespace

Exit examine(const Options& options, MpiSession& session) {
  Rounds rounds(options, session);
  std::vector<RankFacts> ranks;
  bool on_gpus = false;
  rounds.check("machine", kLimit, [&] {
    const std::string mine = own_facts(options, session, options.device != "cpu");
    rounds.await_others();
    ranks = all_facts(session.gather(mine));
    on_gpus = runs_on_gpus(ranks, options);
    const auto promise = promised_ranks(environment_of_process());
    Findings all;
    for (const Findings& some :
         {judge_world(ranks, promise), judge_cores(ranks, on_gpus, launcher_of(promise)),
          judge_shared_memory(ranks, on_gpus), judge_locked_memory(ranks, on_gpus), judge_gpus(ranks, options),
          judge_nccl_variables(ranks, options, on_gpus), judge_interfaces(ranks, on_gpus)})
      all.insert(all.end(), some.begin(), some.end());
    return all;
  });
  rounds.check("clocks", kLimit, [&] {
    std::vector<std::string> hosts;
    for (const RankFacts& rank : ranks) hosts.push_back(rank.host);
    const auto world = session.world(Allreduce::automatic);
    return judge_clocks(measure_clocks(*world, clock_of_host), hosts);
  });
  rounds.check("output folder", kLimit,
               [&] { return session.rank() == 0 ? judge_output(try_output(folder_of(options))) : Findings{}; });
  rounds.check("allreduce", kLimit, [&] { return examine_host_sums(options, session); });

  std::optional<Backend> backend;
  if (!rounds.found_fault("GPUs"))
    rounds.check("options", kLimitOfNccl, [&]() -> Findings {
      try {
        backend = make_backend(options, session);
        return {};
      } catch (const SharedError& error) {
        return {fault("options", error.code(), error.what(), "ddp_train --help")};
      }
    });
  if (backend && !backend->device->is_host())
    rounds.check("allreduce", kLimitOfNccl, [&] { return examine_gpu_sums(options, session, *backend); });
  return rounds.end();
}

void quick_look(const Options& options, MpiSession& session, bool on_gpus, const Log& log) {
  const auto texts = session.gather(own_facts(options, session, false));
  if (session.rank() != 0) return;
  const std::vector<RankFacts> ranks = all_facts(texts);
  const std::string launcher = launcher_of(promised_ranks(environment_of_process()));
  for (const Finding& finding : quick_findings(ranks, options, on_gpus, launcher))
    log.warn("{}: {}; mend it by: {}", finding.check, finding.problem, finding.mend);
}

}  // namespace ddp::doctor
