// The doctor's checks: pure functions of the exchanged facts, with the same result on every rank. Each returns at least
// one finding.
#pragma once

#include "app/commands/doctor/facts.h"
#include "app/commands/doctor/finding.h"
#include "app/machine/device_config.h"
#include "comm/mpi/launcher.h"

#include <optional>
#include <span>
#include <string>
#include <vector>

namespace ddp::doctor {

inline constexpr char kTcpInclude[] = "OMPI_MCA_btl_tcp_if_include";  // the network interfaces of MPI

using Ranks = std::span<const RankFacts>;

// Compares the world's size, ranks.size(), with that of the launcher. `expected`: empty without a launcher.
Findings check_world(Ranks ranks, const std::optional<ExpectedWorld>& expected);

// Checks how ranks share cores. `launcher`: "mpirun" or "srun", for the text of a fix; empty: no launcher. For GPU
// ranks only one thing is a problem: ranks that share a core while other cores are idle.
Findings check_cores(Ranks ranks, bool on_gpus, const std::string& launcher);

Findings check_shared_memory(Ranks ranks, bool on_gpus);
Findings check_locked_memory(Ranks ranks, bool on_gpus);
// Checks the network interfaces that variables name; with `with_networks`, the networks between the hosts too.
Findings check_interfaces(Ranks ranks, bool on_gpus, bool with_networks = true);
Findings check_nccl_variables(Ranks ranks, const DeviceConfig& device, const TransportConfig& transport, bool on_gpus,
                              const std::string& launcher);

// Checks the GPUs of the ranks, shared GPUs, access between GPUs, and the versions of driver and libraries.
Findings check_gpus(Ranks ranks, const DeviceConfig& device, const std::string& launcher);
bool runs_on_gpus(Ranks ranks, DeviceKind asked);  // also false if choose_device() throws

// Finds what would make MPI_Init fail, from this process's host and environment alone. Empty: nothing found.
std::optional<Finding> check_before_mpi(const HostFacts& here, const Environment& environment);

// The transports of MPI for a job on one host, as OMPI_MCA_btl has them: shared memory, so that no rank listens on the
// network. Empty, for Open MPI's own choice: there may be other hosts, there is no room for shared memory, or the
// environment has a choice.
std::string btl_of_one_host(const SharedMemory& memory, const Environment& environment);

// The ranks of each host, in the order of their first ranks.
struct HostRanks {
  std::string host;
  std::vector<int> ranks;
};
std::vector<HostRanks> by_host(Ranks ranks);

// Whether `item` of an MPI variable (an interface's name, or a network such as 10.0.0.0/24) means this interface, and
// the interface is up with an address.
bool names_usable(const Interface& interface, const std::string& item);

// Splits a list such as "eth0,ib0" at its commas, without empty items.
std::vector<std::string> items_of(const std::string& text);

// The launcher's command for `ranks` ranks, such as "mpirun -np 4".
std::string with_ranks(const std::string& launcher, int ranks);

}  // namespace ddp::doctor
