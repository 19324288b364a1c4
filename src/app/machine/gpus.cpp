#include "app/machine/gpus.h"

#include "core/error.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace ddp {

DeviceKind choose_device(DeviceKind asked, std::span<const int> gpus, const std::string& why) {
  if (asked == DeviceKind::cpu) return asked;
  const auto without = std::find(gpus.begin(), gpus.end(), 0);
  if (without == gpus.end()) return DeviceKind::cuda;
  const auto having = std::find_if(gpus.begin(), gpus.end(), [](int count) { return count > 0; });
  require(having == gpus.end(), Exit::device,
          "rank {} sees a GPU and rank {} sees none; give every rank one, or --device cpu", having - gpus.begin(),
          without - gpus.begin());
  require(asked != DeviceKind::cuda, Exit::device, "--device cuda: {}; use --device cpu", why);
  return DeviceKind::cpu;
}

TransportKind choose_transport(TransportKind asked, bool on_gpus) {
  return on_gpus && asked != TransportKind::mpi ? TransportKind::nccl : TransportKind::mpi;
}

std::vector<UnfitOption> unfit_options(const DeviceConfig& config, const TransportConfig& transport,
                                       DeviceKind device) {
  std::vector<UnfitOption> unfit;
  const auto refuse = [&](bool given, const char* name, const std::string& why) {
    if (given) unfit.push_back({name, name + why});
  };
  if (device == DeviceKind::cpu) {
    const std::string why = " is for GPUs; this run computes on the CPU";
    refuse(config.precision == Precision::tf32, "--precision", " tf32" + why);
    refuse(transport.kind == TransportKind::nccl, "--transport", " nccl" + why);
    refuse(transport.nccl_ring, "--nccl-algo", why);
    refuse(config.share_gpu, "--share-gpu", why);
    refuse(!config.graphs, "--no-graph", why);
    refuse(config.programmatic, "--programmatic-launch", why);
    refuse(config.data_mb != DeviceConfig{}.data_mb, "--device-data-mb", why);
    return unfit;
  }
  const std::string why = " is for CPUs; this run computes on GPUs";
  refuse(config.threads != 0, "--threads", why);
  refuse(!config.winograd, "--conv", " direct" + why);
  refuse(config.cpu_isa.has_value(), "--cpu-isa", why);
  const bool over_mpi = choose_transport(transport.kind, true) == TransportKind::mpi;
  refuse(!over_mpi && transport.allreduce != Allreduce::automatic, "--allreduce", " needs --transport mpi");
  refuse(over_mpi && transport.nccl_ring, "--nccl-algo", " needs --transport nccl");
  return unfit;
}

int choose_gpu(int local_rank, int visible, bool share) {
  if (local_rank < visible) return local_rank;
  if (share || visible == 1)
    return local_rank % visible;  // one GPU: perhaps each rank's own; require_distinct_gpus() checks that
  fail(
      Exit::device,
      "local rank {} has no GPU: this host shows {}; start fewer ranks, or let ranks share with --share-gpu (slow, for "
      "tests)",
      local_rank, visible);
}

void require_distinct_gpus(std::span<const RankGpu> ranks) {
  std::map<std::pair<std::string, std::string>, size_t> taken;
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    const auto [entry, fresh] = taken.try_emplace({ranks[rank].host, ranks[rank].uuid}, rank);
    require(fresh, Exit::device,
            "ranks {} and {} have the same GPU ({} on {}); start fewer ranks there, or let them share with --share-gpu "
            "(slow, for tests)",
            entry->second, rank, ranks[rank].bus_id, ranks[rank].host);
  }
}

}  // namespace ddp
