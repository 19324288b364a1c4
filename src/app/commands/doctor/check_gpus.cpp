#include "app/commands/doctor/checks.h"
#include "app/machine/gpus.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <set>

namespace ddp::doctor {
namespace {

using Number = LibraryVersion::Number;

std::string text_of(const Number& n) { return fmt::format("{}.{}.{}", n[0], n[1], n[2]); }

// The problem in the message of the Error that `decision` throws, without its advice; empty: it does not throw.
std::string refusal(const std::function<void()>& decision) {
  try {
    decision();
    return "";
  } catch (const Error& e) {
    return problem_of(e);
  }
}

std::vector<int> visible(Ranks ranks) {
  std::vector<int> counts;
  for (const RankFacts& rank : ranks) counts.push_back(rank.gpu.visible);
  return counts;
}

std::string why_no_gpu(Ranks ranks) {
  for (const RankFacts& rank : ranks)
    if (rank.gpu.visible == 0) return rank.gpu.why;
  return "";
}

std::string gpu_fix(const RankFacts& rank) {
  if (rank.gpu.libraries.empty()) return "launch/build cuda";
  if (rank.here.container) return "docker run --gpus all";
  return rank.gpu.driver == Number{} ? "apt-get install nvidia-driver" : "unset CUDA_VISIBLE_DEVICES";
}

// An older driver runs a newer CUDA of the same major version, except for its new features.
Findings check_driver(Ranks ranks) {
  for (const RankFacts& rank : ranks)
    for (const LibraryVersion& library : rank.gpu.libraries) {
      if (library.name != "CUDA" || rank.gpu.driver >= library.loaded) continue;
      const std::string problem =
          fmt::format("the driver on {} supports CUDA up to {}.{}, and this is CUDA {}.{}", rank.host,
                      rank.gpu.driver[0], rank.gpu.driver[1], library.loaded[0], library.loaded[1]);
      const std::string fix = "apt-get install --only-upgrade nvidia-driver";
      if (rank.gpu.driver[0] < library.loaded[0]) return {fault(Exit::device, problem, fix)};
      return {warn(problem, fix)};
    }
  return {};
}

Findings check_absence(Ranks ranks, DeviceKind asked) {
  const auto without = std::ranges::find_if(ranks, [](const RankFacts& r) { return r.gpu.visible == 0; });
  const RankFacts& rank = without == ranks.end() ? ranks.front() : *without;
  const std::string why = why_no_gpu(ranks);
  const std::string refused = refusal([&] { choose_device(asked, visible(ranks), why); });
  const auto hosts = by_host(ranks);
  const auto its_host = std::ranges::find_if(hosts, [&](const HostRanks& host) { return host.host == rank.host; });
  const int on_bus = ranks[its_host->ranks.front()].here.nvidia_devices;
  const bool none = std::all_of(ranks.begin(), ranks.end(), [](const RankFacts& r) { return r.gpu.visible == 0; });
  if (none && asked != DeviceKind::cpu && rank.gpu.driver != Number{})
    if (const Findings driver = check_driver(ranks); !driver.empty())
      return {refused.empty() ? warn(driver[0].problem, driver[0].fix)
                              : fault(Exit::device, driver[0].problem, driver[0].fix)};
  if (!refused.empty()) return {fault(Exit::device, refused, on_bus > 0 ? gpu_fix(rank) : "ddp_train --device cpu")};
  if (on_bus > 0 && asked == DeviceKind::automatic)
    return {warn(fmt::format("{} has {} NVIDIA device{}, but the run computes on CPUs: {}", rank.host, on_bus,
                             on_bus == 1 ? "" : "s", why),
                 gpu_fix(rank))};
  return {};
}

// The largest number of ranks with which each rank has its own GPU.
int ranks_with_a_gpu(Ranks ranks) {
  int count = 0;
  for (const HostRanks& host : by_host(ranks)) {
    std::set<std::string> uuids;
    int most = 0;
    for (const int rank : host.ranks) {
      uuids.insert(ranks[rank].gpu.uuid);
      most = std::max(most, ranks[rank].gpu.visible);
    }
    count += std::min(static_cast<int>(host.ranks.size()), std::max(most, static_cast<int>(uuids.size())));
  }
  return count;
}

Findings check_sharing(Ranks ranks, const DeviceConfig& device, const std::string& launcher) {
  if (device.share_gpu) return {};
  std::vector<RankGpu> taken;
  std::string refused;
  for (const RankFacts& rank : ranks) {
    taken.push_back({rank.host, rank.gpu.bus_id, rank.gpu.uuid});
    if (refused.empty()) refused = refusal([&] { choose_gpu(rank.local_rank, rank.gpu.visible, false); });
  }
  if (refused.empty()) refused = refusal([&] { require_distinct_gpus(taken); });
  if (refused.empty()) return {};
  return {fault(Exit::device, refused, with_ranks(launcher, ranks_with_a_gpu(ranks)))};
}

Findings check_peers(Ranks ranks) {
  Findings problems;
  for (const HostRanks& host : by_host(ranks)) {
    std::set<std::string> pairs;
    for (const int a : host.ranks)
      for (const int b : host.ranks) {
        const auto& far = ranks[a].gpu.out_of_reach;
        if (a < b && std::find(far.begin(), far.end(), ranks[b].gpu.bus_id) != far.end())
          pairs.insert(fmt::format("ranks {} and {}", a, b));
      }
    if (!pairs.empty())
      problems.push_back(
          hint("nvidia-smi topo -p2p r", warn(fmt::format("on {} the GPUs of {} cannot reach each other directly: "
                                                          "NCCL goes through the host's memory, slower",
                                                          host.host, fmt::join(pairs, ", ")))));
  }
  return problems;
}

Findings check_libraries(Ranks ranks) {
  Findings problems;
  std::set<std::string> reported;
  for (const RankFacts& rank : ranks)
    for (const auto& [name, compiled, loaded] : rank.gpu.libraries) {
      if (loaded >= compiled || !reported.insert(name).second) continue;
      const std::string problem = fmt::format("{} on {} is {}, but this program was compiled for {}", name, rank.host,
                                              text_of(loaded), text_of(compiled));
      if (loaded[0] < compiled[0])
        problems.push_back(fault(Exit::device, problem, "launch/build cuda"));
      else
        problems.push_back(warn(problem, "launch/build cuda"));
    }
  return problems;
}

std::string found_gpus(Ranks ranks) {
  std::vector<std::string> each;
  for (size_t rank = 0; rank < ranks.size(); ++rank)
    each.push_back(
        fmt::format("rank {}: {} {} on {}", rank, ranks[rank].gpu.name, ranks[rank].gpu.bus_id, ranks[rank].host));
  return fmt::format("{}", fmt::join(each, "; "));
}

std::string found_versions(const GpuFacts& gpu) {
  std::string text =
      gpu.driver == Number{} ? "no driver" : fmt::format("driver for CUDA {}.{}", gpu.driver[0], gpu.driver[1]);
  for (const LibraryVersion& library : gpu.libraries)
    text += fmt::format(", {} {}", library.name, text_of(library.loaded));
  return text;
}

}  // namespace

bool runs_on_gpus(Ranks ranks, DeviceKind asked) {
  try {
    return choose_device(asked, visible(ranks), "") == DeviceKind::cuda;
  } catch (const Error&) {
    return false;
  }
}

Findings check_gpus(Ranks ranks, const DeviceConfig& device, const std::string& launcher) {
  if (!runs_on_gpus(ranks, device.kind)) {
    const std::string why = device.kind == DeviceKind::cpu ? "--device cpu" : why_no_gpu(ranks);
    return with_found(check_absence(ranks, device.kind), "GPUs", fmt::format("none used: {}", why));
  }
  Findings problems;
  for (const Findings& more : {check_sharing(ranks, device, launcher), check_peers(ranks)})
    problems.insert(problems.end(), more.begin(), more.end());
  Findings all = with_found(std::move(problems), "GPUs", found_gpus(ranks));
  Findings versions = check_driver(ranks);
  for (const Finding& more : check_libraries(ranks)) versions.push_back(more);
  for (const Finding& more : with_found(std::move(versions), "versions", found_versions(ranks.front().gpu)))
    all.push_back(more);
  return all;
}

}  // namespace ddp::doctor
