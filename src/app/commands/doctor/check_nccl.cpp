#include "app/commands/doctor/checks.h"
#include "app/machine/gpus.h"
#include "core/printable.h"

#include <fmt/ranges.h>
#include <strings.h>

#include <algorithm>
#include <charconv>
#include <map>

namespace ddp::doctor {
namespace {

struct Situation {
  const DeviceConfig& device;
  const TransportConfig& transport;
  bool several_hosts = false, rdma = false;

  bool rings_requested() const { return transport.nccl_ring || device.deterministic; }
};

bool is(const std::string& value, const char* other) { return strcasecmp(value.c_str(), other) == 0; }
bool is_on(const std::string& value) { return value == "1"; }
bool is_few(const std::string& value) {
  int number = 0;
  std::from_chars(value.data(), value.data() + value.size(), number);
  return number > 0 && number < 4;
}

// Settings that reduce the speed or are rarely intended.
struct Setting {
  const char* variable;
  bool (*is_harmful)(const std::string& value, const Situation& s);
  const char* why;
};

const Setting kSettings[] = {
    {"NCCL_ALGO", [](const std::string&, const Situation& s) { return !s.rings_requested(); },
     "NCCL may not choose the fastest algorithm for each size; --nccl-algo ring selects rings"},
    {"NCCL_DEBUG", [](const std::string& value, const Situation&) { return is(value, "TRACE"); },
     "every call is written to the log"},
    {"NCCL_IB_DISABLE",
     [](const std::string& value, const Situation& s) { return is_on(value) && s.several_hosts && s.rdma; },
     "hosts communicate over TCP although they have RDMA adapters"},
    {"NCCL_MAX_CTAS", [](const std::string& value, const Situation&) { return is_few(value); },
     "too few blocks to fill the links between GPUs"},
    {"NCCL_MAX_NCHANNELS", [](const std::string& value, const Situation&) { return is_few(value); },
     "too few channels to fill the links between GPUs"},
    {"NCCL_NET",
     [](const std::string& value, const Situation& s) { return is(value, "Socket") && s.several_hosts && s.rdma; },
     "hosts communicate over TCP although they have RDMA adapters"},
    {"NCCL_NVLS_ENABLE",
     [](const std::string& value, const Situation& s) { return value == "0" && !s.rings_requested(); },
     "reductions in the NVSwitch are off, the fastest way where there is one"},
    {"NCCL_P2P_DISABLE", [](const std::string& value, const Situation&) { return is_on(value); },
     "GPUs talk through the host's memory, not directly"},
    {"NCCL_PROTO", [](const std::string&, const Situation& s) { return !s.device.deterministic; },
     "NCCL may not choose the fastest protocol for each size"},
    {"NCCL_SHM_DISABLE", [](const std::string& value, const Situation&) { return is_on(value); },
     "GPUs that cannot reach each other directly communicate over sockets"},
    {"NCCL_SOCKET_IFNAME",
     [](const std::string& value, const Situation& s) { return (value == "lo" || value == "=lo") && s.several_hosts; },
     "other hosts cannot be reached through it"},
};

}  // namespace

Findings check_nccl_variables(Ranks ranks, const DeviceConfig& device, const TransportConfig& transport, bool on_gpus,
                              const std::string& launcher) {
  std::map<std::string, std::vector<std::string>> values;  // values of the ranks where the variable is set
  for (const RankFacts& rank : ranks)
    for (const auto& [name, value] : rank.environment)
      if (name.starts_with("NCCL_")) values[name].push_back(value);
  std::vector<std::string> set;
  for (const auto& [name, of_ranks] : values) set.push_back(printable_variable(name, of_ranks.front()));
  const std::string found =
      set.empty() ? "none set" : fmt::format("{}{}", fmt::join(set, ", "), on_gpus ? "" : "; not used on CPU ranks");
  if (choose_transport(transport.kind, on_gpus) == TransportKind::mpi) return all_ok("NCCL variables", found);

  Situation situation{.device = device, .transport = transport, .several_hosts = by_host(ranks).size() > 1};
  situation.rdma = std::any_of(ranks.begin(), ranks.end(), [](const RankFacts& rank) { return rank.here.rdma; });
  Findings problems;
  for (const auto& [name, of_ranks] : values) {
    const bool same = of_ranks.size() == ranks.size() &&
                      std::all_of(of_ranks.begin(), of_ranks.end(), [&](const auto& v) { return v == of_ranks[0]; });
    if (!same && name != "NCCL_HOSTID" && name != "NCCL_VERSION")  // container images set these two
      problems.push_back(warn(fmt::format("{} is not the same on all ranks", name),
                              fmt::format("{} {}", launcher == "srun" ? "export" : "mpirun -x",
                                          printable_variable(name, of_ranks.front()))));
    for (const Setting& setting : kSettings)
      if (name == setting.variable && !device.share_gpu && setting.is_harmful(of_ranks.front(), situation))
        problems.push_back(warn(fmt::format("{}={}: {}", name, of_ranks.front(), setting.why), "unset " + name));
  }
  return with_found(std::move(problems), "NCCL variables", found);
}

}  // namespace ddp::doctor
