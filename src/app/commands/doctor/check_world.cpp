#include "app/commands/doctor/checks.h"

#include <fmt/ranges.h>

#include <algorithm>

namespace ddp::doctor {

std::vector<HostRanks> by_host(Ranks ranks) {
  std::vector<HostRanks> hosts;
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    auto host =
        std::find_if(hosts.begin(), hosts.end(), [&](const HostRanks& h) { return h.host == ranks[rank].host; });
    if (host == hosts.end()) host = hosts.insert(hosts.end(), {ranks[rank].host, {}});
    host->ranks.push_back(static_cast<int>(rank));
  }
  return hosts;
}

std::string with_ranks(const std::string& launcher, int ranks) {
  return fmt::format("{} {}", launcher == "srun" ? "srun -n" : "mpirun -np", ranks);
}

namespace {

// A command with the launcher of the MPI that this program was built with.
std::string command_with_right_launcher(const ExpectedWorld& expected) {
  if (expected.launcher == "srun") return fmt::format("srun --mpi=pmix -n {} ddp_train", expected.ranks);
  return fmt::format("{} -np {} ddp_train", DDP_LAUNCHER, expected.ranks);
}

}  // namespace

Findings check_world(Ranks ranks, const std::optional<ExpectedWorld>& expected) {
  std::vector<std::string> counts;
  for (const HostRanks& host : by_host(ranks)) counts.push_back(fmt::format("{} on {}", host.ranks.size(), host.host));
  const size_t size = ranks.size();
  std::string found = fmt::format("{} rank{}: {}", size, size == 1 ? "" : "s", fmt::join(counts, ", "));
  if (!expected) return all_ok("world", found + "; no launcher started it: mpirun -np N starts N ranks");
  if (expected->ranks > static_cast<int>(size))
    return with_found({fault(Exit::world,
                             fmt::format("{} promised {} ranks ({}), but the MPI world has {}: each would train alone",
                                         expected->launcher, expected->ranks, expected->variable, size),
                             command_with_right_launcher(*expected))},
                      "world", std::move(found));
  return all_ok("world", fmt::format("{}, as {} promised", found, expected->launcher));
}

}  // namespace ddp::doctor
