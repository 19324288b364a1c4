#include "app/commands/doctor/checks.h"
#include "app/machine/cores.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>

namespace ddp::doctor {
namespace {

using Cores = std::vector<int>;  // ascending

Cores union_of(const Cores& a, const Cores& b) {
  Cores all;
  std::set_union(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(all));
  return all;
}

bool overlap(const Cores& a, const Cores& b) {
  return std::any_of(a.begin(), a.end(), [&](int core) { return std::binary_search(b.begin(), b.end(), core); });
}

// A connected group of ranks: each shares at least one core with another rank of the group. One rank alone is a group.
struct SharingGroup {
  std::vector<int> ranks;
  Cores cores;
};

std::vector<SharingGroup> sharing_groups(Ranks all, const std::vector<int>& of_host) {
  std::vector<SharingGroup> groups;
  for (const int rank : of_host) {
    SharingGroup merged{{rank}, all[rank].cores};
    std::erase_if(groups, [&](const SharingGroup& group) {
      if (!overlap(group.cores, merged.cores)) return false;
      merged.ranks.insert(merged.ranks.end(), group.ranks.begin(), group.ranks.end());
      merged.cores = union_of(group.cores, merged.cores);
      return true;
    });
    std::sort(merged.ranks.begin(), merged.ranks.end());
    groups.push_back(std::move(merged));
  }
  return groups;
}

std::string name_of(const std::vector<int>& ranks) {
  return fmt::format("rank{} {}", ranks.size() == 1 ? "" : "s", list_of(ranks));
}

std::string name_of_cores(const Cores& cores) {
  return fmt::format("core{} {}", cores.size() == 1 ? "" : "s", list_of(cores));
}

// A command that undoes the binding of ranks, be it by a shell's affinity, by mpirun or by Slurm.
std::string unbind_command(const std::string& launcher, const Cores& all) {
  if (launcher == "srun") return "srun --cpu-bind=none";
  return fmt::format("taskset -c {} mpirun --bind-to none", list_of(all));
}

struct Host {
  std::string name;
  Cores all;      // cores that its processes may use
  int limit = 0;  // number of cores at a time that the container allows
  std::string launcher;
};

std::string threads_of(Ranks ranks, const SharingGroup& group, int usable, int& wanted) {
  const auto sharing = static_cast<int>(group.ranks.size());
  int most = 0;
  for (const int rank : group.ranks) {
    const int threads = share_of_cores(ranks[rank].threads, usable, sharing);
    wanted += threads;
    most = std::max(most, threads);
  }
  return fmt::format("{} thread{}", most, most == 1 ? "" : "s");
}

Findings check_sharing(Ranks ranks, const SharingGroup& group, const Host& host, const Cores& idle, bool on_gpus) {
  const int usable = std::min(static_cast<int>(group.cores.size()), host.limit);
  int wanted = 0;
  const std::string threads = threads_of(ranks, group, usable, wanted);
  if (group.ranks.size() > 1 && wanted > usable && !idle.empty() && host.limit > usable)
    return {fault(Exit::device,
                  fmt::format("{} on {} share {}, while {} {} idle", name_of(group.ranks), host.name,
                              name_of_cores(group.cores), name_of_cores(idle), idle.size() == 1 ? "is" : "are"),
                  unbind_command(host.launcher, host.all))};
  if (wanted <= usable || on_gpus) return {};
  const bool too_many_ranks = static_cast<int>(group.ranks.size()) > usable;
  const int each = std::max(1, usable / static_cast<int>(group.ranks.size()));
  return {warn(fmt::format("{} with {}{} on {} share {}{}", name_of(group.ranks), threads,
                           group.ranks.size() == 1 ? "" : " each", host.name, name_of_cores(group.cores),
                           usable < static_cast<int>(group.cores.size())
                               ? fmt::format(", of which the container may use {} at a time", usable)
                               : ""),
               too_many_ranks ? with_ranks(host.launcher, usable) : fmt::format("ddp_train --threads {}", each))};
}

// Whether the ranks may use the cores that no rank is bound to. Under a batch system these belong to other jobs.
bool may_use_idle_cores(Ranks ranks, const HostRanks& of_host, const std::string& launcher) {
  const RankFacts& first = ranks[of_host.ranks.front()];
  return !launcher.empty() && launcher != "srun" && value_in(first.environment, "SLURM_JOB_ID").empty() &&
         first.threads == 0;
}

}  // namespace

Findings check_cores(Ranks ranks, bool on_gpus, const std::string& launcher) {
  Findings problems;
  std::vector<std::string> seen;
  for (const HostRanks& of_host : by_host(ranks)) {
    const HostFacts& here = ranks[of_host.ranks.front()].here;
    Cores bound;
    for (const int rank : of_host.ranks) bound = union_of(bound, ranks[rank].cores);
    const Host host{of_host.host, union_of(here.cores, bound),
                    cores_within_limit(static_cast<int>(union_of(here.cores, bound).size()), here.cpu_max), launcher};
    Cores idle;
    std::set_difference(host.all.begin(), host.all.end(), bound.begin(), bound.end(), std::back_inserter(idle));
    seen.push_back(
        fmt::format("{} on {} of {} cores of {}", name_of(of_host.ranks), bound.size(), host.all.size(), host.name));
    const size_t before = problems.size();
    for (const SharingGroup& group : sharing_groups(ranks, of_host.ranks))
      std::ranges::move(check_sharing(ranks, group, host, idle, on_gpus), std::back_inserter(problems));
    if (problems.size() == before && !on_gpus && may_use_idle_cores(ranks, of_host, launcher) &&
        idle.size() >= bound.size() && host.limit >= static_cast<int>(2 * bound.size()))
      problems.push_back(warn(fmt::format("{} on {} {} bound to {}, while {} {} idle", name_of(of_host.ranks),
                                          host.name, of_host.ranks.size() == 1 ? "is" : "are", name_of_cores(bound),
                                          name_of_cores(idle), idle.size() == 1 ? "is" : "are"),
                              unbind_command(launcher, host.all)));
  }
  return with_found(std::move(problems), "cores", fmt::format("{}", fmt::join(seen, "; ")));
}

}  // namespace ddp::doctor
