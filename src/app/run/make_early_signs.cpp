#include "app/run/make_early_signs.h"

#include "app/machine/cores.h"

#include <utility>
#include <vector>

namespace ddp {
namespace {

// The cores of all ranks that compute on them, by rank. Collective.
std::vector<RankCores> cores_of_ranks(const Job& job, const PlannedRun& run, std::span<const std::string> hosts) {
  if (!run.backend.device->is_host()) return {};
  const std::vector<int> cores = cores_of_process();
  const int usable = cores_within_limit(static_cast<int>(cores.size()), cpu_limit_of_container());
  const auto lists = job.session.gather(list_of(cores)), limits = job.session.gather(fmt::to_string(usable));
  std::vector<RankCores> ranks;
  for (size_t r = 0; r < hosts.size(); ++r)
    ranks.push_back({.host = hosts[r], .cores = parse_list(lists[r]), .usable = std::stoi(limits[r])});
  return ranks;
}

template <class Wanted>
std::string first_name(std::span<const Parameter> parameters, const Wanted& wanted) {
  const Parameter* first = nullptr;
  for (const Parameter& p : parameters)
    if (wanted(p) && (!first || p.layer < first->layer)) first = &p;
  return first ? first->name : "";
}

NetworkFacts facts_of(const Job& job, const PlannedRun& run) {
  using Role = Parameter::Role;
  const auto parameters = trained_of(run.replica->parameters);
  const NetworkConfig& config = job.options.network;
  return {.parameters = std::ssize(parameters),
          .first_weight = job.network.reads_tokens()  // an embedding reads no values that may be zeros
                              ? ""
                              : first_name(parameters, [](const Parameter& p) { return p.role == Role::weight; }),
          .first_shift = first_name(parameters,
                                    [](const Parameter& p) {
                                      return (p.role == Role::bias || p.role == Role::norm_shift) &&
                                             p.bias_gradient != LayerSpec::BiasGradient::nobody;
                                    }),
          .default_init =
              run.resume_point.resuming || !config.init_from.empty() || config.init.kind == Init::Kind::of_network};
}

}  // namespace

std::unique_ptr<EarlySigns> make_early_signs(const Job& job, const PlannedRun& run,
                                             std::span<const std::string> hosts) {
  std::vector<RankCores> cores = cores_of_ranks(job, run, hosts);
  if (job.session.rank() != 0) return nullptr;
  const bool in_memory = job.data.data.train->in_memory();
  return std::make_unique<EarlySigns>(
      EarlySignsConfig{.classes = job.data.data.train->classes(),
                       .smoothing = job.options.replica.label_smoothing,
                       .clips = job.options.replica.max_grad_norm > 0,
                       .network = facts_of(job, run),
                       .data = {.workers = in_memory ? 0 : job.data.workers,
                                .threads = run.backend.device->is_host() ? run.threads : 0,
                                .tokens = job.network.reads_tokens()},
                       .cores = std::move(cores)});
}

}  // namespace ddp
