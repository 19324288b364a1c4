#include "app/commands/doctor/checks.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>

namespace ddp::doctor {
namespace {

constexpr double kMiB = 1 << 20;
constexpr int64_t kNcclBytes = int64_t{256} << 20;  // enough for NCCL's buffers between GPUs without peer access

double mib(int64_t bytes) { return static_cast<double>(bytes) / kMiB; }

// Open MPI needs 5 % more than a segment; with less free memory it does not use shared memory.
bool has_room_for_segment(const SharedMemory& memory) {
  return memory.usable && memory.free >= memory.per_rank + memory.per_rank / 20;
}

std::string describe(const SharedMemory& memory) {
  if (!memory.usable) return fmt::format("{} cannot be written", memory.folder);
  return fmt::format("{} has {:.0f} MiB, {:.1f} free", memory.folder, mib(memory.bytes), mib(memory.free));
}

std::string enlarge_command(const HostFacts& here) {
  if (here.container) return "docker run --shm-size=1g";
  if (here.memory.folder == "/dev/shm") return "mount -o remount,size=1g /dev/shm";
  return "unset OMPI_MCA_btl_vader_backing_directory";
}

bool has_usable_interface(const HostFacts& here, const Environment& environment) {
  const auto items = items_of(value_in(environment, kTcpInclude));
  return std::any_of(here.interfaces.begin(), here.interfaces.end(), [&](const Interface& interface) {
    if (items.empty()) return interface.name != "lo" && names_usable(interface, interface.name);
    const auto names_it = [&](const std::string& item) { return names_usable(interface, item); };
    return std::any_of(items.begin(), items.end(), names_it);
  });
}

}  // namespace

Findings check_shared_memory(Ranks ranks, bool on_gpus) {
  Findings problems;
  std::vector<std::string> seen;
  for (const auto& [host, of_host] : by_host(ranks)) {
    const HostFacts& here = ranks[of_host.front()].here;
    const SharedMemory& memory = here.memory;
    const auto count = static_cast<int64_t>(of_host.size());
    seen.push_back(fmt::format("{} on {}", describe(memory), host));
    if (count == 1) continue;
    const std::string wanted = fmt::format("{} ranks want {:.0f} MiB each", count, mib(memory.per_rank));
    if (!has_room_for_segment(memory))
      problems.push_back(
          fault(Exit::communication,
                fmt::format("{} on {}, and {}: they use the network instead, which is much slower, or die "
                            "of SIGBUS (exit code 135)",
                            describe(memory), host, wanted),
                enlarge_command(here)));
    else if (memory.free < (count - 1) * memory.per_rank)  // this job's segments exist already, but are empty
      problems.push_back(warn(fmt::format("{} on {}, and {}: when it is full, a rank dies of SIGBUS (exit code 135)",
                                          describe(memory), host, wanted),
                              enlarge_command(here)));
    else if (on_gpus && memory.folder == "/dev/shm" && memory.free < kNcclBytes)
      problems.push_back(warn(
          fmt::format("{} on {}: NCCL may fail where GPUs cannot reach each other directly", describe(memory), host),
          enlarge_command(here)));
  }
  return with_found(std::move(problems), "shared memory", fmt::format("{}", fmt::join(seen, "; ")));
}

Findings check_locked_memory(Ranks ranks, bool on_gpus) {
  Findings problems;
  std::string found = "no limit";
  for (const auto& [host, of_host] : by_host(ranks)) {
    const HostFacts& here = ranks[of_host.front()].here;
    if (here.locked_memory < 0) continue;
    const std::string limit = fmt::format("{:.0f} MiB on {}", mib(here.locked_memory), host);
    found = limit + (here.rdma ? "" : "; no adapter for RDMA needs more");
    if (here.rdma)
      problems.push_back(warn(fmt::format("the limit of locked memory is {}: RDMA{} must lock all of its buffers",
                                          limit, on_gpus ? ", also under NCCL," : ""),
                              here.container ? "docker run --ulimit memlock=-1" : "ulimit -l unlimited"));
  }
  return with_found(std::move(problems), "locked memory", std::move(found));
}

std::string btl_of_one_host(const SharedMemory& memory, const Environment& environment) {
  const auto any = [&](std::string_view start) {
    return std::ranges::any_of(environment, [&](const auto& entry) { return entry.first.starts_with(start); });
  };
  if (any("OMPI_MCA_btl_tcp_") || environment.contains("OMPI_MCA_btl") || environment.contains("OMPI_MCA_pml"))
    return "";
  const auto expected = expected_world(environment);
  if (!expected) return any("PMI") ? "" : "self";  // without a launcher, this process is the job
  const std::string local = value_in(environment, "OMPI_COMM_WORLD_LOCAL_SIZE");
  if (local.empty() || local != value_in(environment, "OMPI_COMM_WORLD_SIZE")) return "";
  const bool room = memory.usable && memory.free >= expected->ranks * memory.per_rank;
  return room ? "self,vader" : "";
}

// Open MPI ends the job with its own long message where ranks of one host have neither shared memory nor a
// network, and where hosts have no network.
std::optional<Finding> check_before_mpi(const HostFacts& here, const Environment& environment) {
  const auto count = [&](const char* variable) { return std::atoi(value_in(environment, variable).c_str()); };
  const int world = count("OMPI_COMM_WORLD_SIZE"), local = count("OMPI_COMM_WORLD_LOCAL_SIZE");
  const auto chosen = [&](const char* variable) { return !value_in(environment, variable).empty(); };
  if (here.rdma || chosen("OMPI_MCA_pml") || chosen("OMPI_MCA_btl") || chosen("OMPI_MCA_btl_tcp_if_exclude"))
    return std::nullopt;  // MPI may use another transport
  if (local > 1 && !has_room_for_segment(here.memory) && !has_usable_interface(here, environment))
    return for_check(
        "shared memory",
        fault(Exit::communication,
              fmt::format("{}, {} ranks want {:.0f} MiB each there, and there is no network interface that is up "
                          "besides lo: they cannot reach each other",
                          describe(here.memory), local, mib(here.memory.per_rank)),
              enlarge_command(here)));
  if (world <= local || local == 0 || has_usable_interface(here, environment)) return std::nullopt;
  const std::string named = value_in(environment, kTcpInclude);
  if (named.empty())
    return for_check("interfaces",
                     hint("ip link", fault(Exit::communication,
                                           "there are other hosts, but no network interface besides lo is up "
                                           "and has an address")));
  return for_check("interfaces",
                   fault(Exit::communication,
                         fmt::format("{}={} names no interface that is up here and has an address: other hosts cannot "
                                     "be reached",
                                     kTcpInclude, named),
                         fmt::format("unset {}", kTcpInclude)));
}

}  // namespace ddp::doctor
