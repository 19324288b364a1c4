#include "comm/nccl/environment.h"

#include "core/error.h"
#include "core/printable.h"

#include <strings.h>
#include <unistd.h>

#include <cstring>

namespace ddp {
namespace {

const NcclVariables kRing{{"NCCL_ALGO", "Ring"}};
const NcclVariables kDeterministic{{"NCCL_ALGO", "Ring"}, {"NCCL_PROTO", "Simple"}, {"NCCL_NVLS_ENABLE", "0"}};

// The kernels of two communicators may wait for each other for ever if two GPUs start them in different orders and one
// does not fit beside the other. This variable makes NCCL order them on each GPU as the host has launched them, which
// is the same on all ranks. Off by default.
const NcclVariables kOneOrder{{"NCCL_LAUNCH_ORDER_IMPLICIT", "1"}};

// NCCL refuses two ranks on one GPU of one host, so each rank gets its own host id. The ranks communicate over
// loopback. Each gets few blocks, because the kernels of the ranks take turns on the GPU.
NcclVariables shared_gpu_variables(int rank) {
  return {{"NCCL_HOSTID", fmt::format("ddp-rank-{}", rank)},
          {"NCCL_ALGO", "Ring"},
          {"NCCL_CUMEM_HOST_ENABLE", "0"},  // needs NUMA information, which virtual machines may lack
          {"NCCL_IB_DISABLE", "1"},
          {"NCCL_MAX_CTAS", "2"},
          {"NCCL_MNNVL_ENABLE", "0"},
          {"NCCL_NET", "Socket"},
          {"NCCL_NVLS_ENABLE", "0"},
          {"NCCL_P2P_DISABLE", "1"},
          {"NCCL_PROTO", "Simple"},
          {"NCCL_RAS_ENABLE", "0"},
          {"NCCL_SHM_DISABLE", "1"},
          {"NCCL_SOCKET_IFNAME", "lo"}};
}

void require_no_conflict(const NcclVariables& wanted, const char* option, const NcclVariables& present) {
  for (const auto& [name, value] : wanted)
    if (const auto found = present.find(name); found != present.end())
      require(strcasecmp(found->second.c_str(), value.c_str()) == 0, Exit::usage,
              "{}={} is set, but {} needs {}={}: unset the variable or omit the option", name, found->second, option,
              name, value);
}

}  // namespace

NcclVariables nccl_variables_to_set(const NcclConfig& config, int rank, const NcclVariables& present) {
  NcclVariables wanted;
  if (config.ring) {
    require_no_conflict(kRing, "--nccl-algo ring", present);
    wanted.insert(kRing.begin(), kRing.end());
  }
  if (config.deterministic) {
    require_no_conflict(kDeterministic, "--deterministic", present);
    wanted.insert(kDeterministic.begin(), kDeterministic.end());
  }
  if (config.split) wanted.insert(kOneOrder.begin(), kOneOrder.end());
  if (config.share_gpu) wanted.merge(shared_gpu_variables(rank));
  std::erase_if(wanted, [&](const auto& variable) { return present.contains(variable.first); });
  return wanted;
}

NcclVariables nccl_variables_of_process() {
  NcclVariables present;
  for (char** entry = environ; *entry; ++entry)
    if (const char* const equals = std::strchr(*entry, '='); equals && std::strncmp(*entry, "NCCL_", 5) == 0)
      present.emplace(std::string(*entry, equals - *entry), equals + 1);
  return present;
}

std::string describe_nccl(int version, const NcclVariables& present) {
  std::string text = fmt::format("NCCL {}.{}.{}", version / 10000, version / 100 % 100, version % 100);
  for (const auto& [name, value] : present) text += ", " + printable_variable(name, value);
  return text;
}

}  // namespace ddp
