// The doctor's judgements: pure decisions over what was gathered, the same on every rank that makes them. Each gives at
// least one finding.
#pragma once

#include "app/device_config.h"
#include "app/doctor/facts.h"
#include "app/doctor/finding.h"
#include "comm/mpi/launcher.h"

#include <optional>
#include <span>
#include <string>
#include <vector>

namespace ddp::doctor {

inline constexpr char kTcpInclude[] = "OMPI_MCA_btl_tcp_if_include";  // the interfaces of MPI's messages between hosts

using Ranks = std::span<const RankFacts>;

// `expected`: the launcher's, if any. The world's size is that of `ranks`.
Findings check_world(Ranks ranks, const std::optional<ExpectedWorld>& expected);

// `launcher`: for lines that start the ranks in another way; empty: none started them.
//
// Where the ranks compute on GPUs, cores matter less: only ranks that share one while others are idle do.
Findings check_cores(Ranks ranks, bool on_gpus, const std::string& launcher);

Findings check_shared_memory(Ranks ranks, bool on_gpus);
Findings check_locked_memory(Ranks ranks, bool on_gpus);
Findings check_interfaces(Ranks ranks, bool on_gpus, bool with_networks = true);  // or those named by variables only
Findings check_nccl_variables(Ranks ranks, const DeviceConfig& device, const TransportConfig& transport, bool on_gpus,
                              const std::string& launcher);

// Which device, whose, with which versions.
Findings check_gpus(Ranks ranks, const DeviceConfig& device, const std::string& launcher);
bool runs_on_gpus(Ranks ranks, DeviceKind asked);  // false too where the device is a fault

// What MPI_Init would not survive: this process sees its host, its environment, and nobody else.
std::optional<Finding> check_before_mpi(const HostFacts& here, const Environment& environment);

// The ranks of each host, in the order of their first ranks.
struct HostRanks {
  std::string host;
  std::vector<int> ranks;
};
std::vector<HostRanks> by_host(Ranks ranks);

// Whether an item of a variable of MPI's, a name or a network such as 10.0.0.0/24, means this interface, and it can be
// used.
bool names_usable(const Interface& interface, const std::string& item);

// "eth0,ib0": the items without the commas.
std::vector<std::string> items_of(const std::string& text);

// The launcher's command for so many ranks.
std::string with_ranks(const std::string& launcher, int ranks);

}  // namespace ddp::doctor
