// The doctor's judgements: pure decisions over what was gathered, the same on every rank that makes them. Each gives at
// least one finding; those of a start (`quick_findings`) only what is wrong.
#pragma once

#include "app/doctor/facts.h"
#include "app/doctor/finding.h"
#include "app/options.h"
#include "comm/mpi/launcher.h"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace ddp::doctor {

using Ranks = std::span<const RankFacts>;

// `promise`: the launcher's, if any. The world's size is that of `ranks`.
Findings judge_world(Ranks ranks, const std::optional<Promise>& promise);

// Where the ranks compute on GPUs, cores matter less: only ranks that share one while others are idle do.
Findings judge_cores(Ranks ranks, bool on_gpus, const std::string& launcher);

Findings judge_shared_memory(Ranks ranks, bool on_gpus);
Findings judge_locked_memory(Ranks ranks, bool on_gpus);
Findings judge_interfaces(Ranks ranks, bool on_gpus);
Findings judge_nccl_variables(Ranks ranks, const Options& options, bool on_gpus);

// Which device, whose, with which versions.
Findings judge_gpus(Ranks ranks, const Options& options);
bool runs_on_gpus(Ranks ranks, const Options& options);  // false too where the device is a fault

// What MPI_Init would not survive: this process sees its host, its environment, and nobody else.
std::optional<Finding> judge_before_mpi(const HostFacts& here, const Environment& environment);

// What is wrong of the above as far as it is known without looking at GPUs.
Findings quick_findings(Ranks ranks, const Options& options, bool on_gpus, const std::string& launcher);

// The ranks of each host, in the order of their first ranks.
struct HostRanks {
  std::string host;
  std::vector<int> ranks;
};
std::vector<HostRanks> by_host(Ranks ranks);

// Whether the variable's value names an interface of this host that can be used. `item`: a name or, for MPI, a network.
bool names_usable(const Interface& interface, const std::string& item);

}  // namespace ddp::doctor
