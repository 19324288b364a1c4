#include "app/commands/plan/scaling_table.h"

#include "core/printable.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace ddp {
namespace {

using Line = std::vector<std::string>;

std::string speed_up_text(const Scaling& many, const Scaling& one, const RunProfile& profile) {
  return profile.noise_scale ? fmt::format("{:.1f}", speed_up(many, one, *profile.noise_scale)) : "-";
}

// Numbers end at the right.
std::string aligned(const std::vector<Line>& lines) {
  std::vector<size_t> widths(lines.front().size());
  for (const Line& line : lines)
    for (size_t k = 0; k < line.size(); ++k) widths[k] = std::max(widths[k], line[k].size());
  std::string text;
  for (const Line& line : lines) {
    for (size_t k = 0; k < line.size(); ++k) text += fmt::format("{}{:>{}}", k == 0 ? "" : "  ", line[k], widths[k]);
    text += '\n';
  }
  return text;
}

std::string in_memory_units(double bytes) {
  const double mib = bytes / (1 << 20);
  return mib < 10'000 ? fmt::format("{:.1f} MiB", mib) : fmt::format("{:.1f} GiB", mib / 1024);
}

std::string about_memory(const Scaling& s, const RunProfile& profile) {
  return fmt::format("memory of a rank: {}: weights {}, gradients {}, optimizer {}{}, activations {}\n",
                     in_memory_units(s.memory.total()), in_memory_units(s.memory.weights),
                     in_memory_units(s.memory.gradients), in_memory_units(s.memory.optimizer),
                     profile.zero ? " (sharded)" : "", in_memory_units(s.memory.activations));
}

std::string about_the_noise(std::span<const PlannedScaling> rows, const RunProfile& profile) {
  if (!profile.noise_scale)
    return "the gradient noise scale is not known: a profile of several ranks, or of --accumulate, may have it\n";
  const double noise = *profile.noise_scale;
  const auto above = std::ranges::find_if(
      rows, [&](const PlannedScaling& row) { return static_cast<double>(row.formula.batch) > noise; });
  const std::string where = above == rows.end()
                                ? fmt::format("no batch of the table is above it")
                                : fmt::format("the batch is above it from {} rank{} on", above->formula.ranks,
                                              above->formula.ranks == 1 ? "" : "s");
  return fmt::format(
      "gradient noise scale: about {:.0f} samples; a larger batch saves fewer than half of the steps that it could: "
      "{}\n",
      noise, where);
}

}  // namespace

std::string describe_profile(const RunProfile& p) {
  return fmt::format("{} ({} parameters), {} on {}: profile of {} rank{} on {} host{}, global batch {}\n",
                     printable(p.network), std::accumulate(p.parameters.begin(), p.parameters.end(), int64_t{0}),
                     printable(p.precision), printable(p.device), p.ranks, p.ranks == 1 ? "" : "s", p.hosts,
                     p.hosts == 1 ? "" : "s", p.batch);
}

std::string scaling_table(std::span<const PlannedScaling> rows, const RunProfile& profile, bool simulates) {
  std::vector<Line> lines{{"ranks", "hosts", "batch", "step ms", "compute", "slow ranks", "exposed comm", "data",
                           "samples/s", "efficiency", "speed-up"}};
  if (simulates) lines.front().emplace_back("simulated ms");
  const Scaling& one = rows.front().formula;
  for (const PlannedScaling& row : rows) {
    const Scaling& s = row.formula;
    lines.push_back({fmt::format("{}", s.ranks), fmt::format("{}", s.hosts), fmt::format("{}", s.batch),
                     fmt::format("{:.2f}", s.step_ms), fmt::format("{:.2f}", s.compute_ms),
                     fmt::format("{:.2f}", s.straggler_ms), fmt::format("{:.2f}", s.exposed_ms),
                     fmt::format("{:.2f}", s.data_ms), fmt::format("{:.0f}", s.samples_per_second()),
                     fmt::format("{:.1f} %", 100 * efficiency(s, one)), speed_up_text(s, one, profile)});
    if (simulates) lines.back().push_back(row.simulated_ms ? fmt::format("{:.2f}", *row.simulated_ms) : "-");
  }
  return aligned(lines);
}

std::string describe_scaling(std::span<const PlannedScaling> rows, const RunProfile& profile, const Cluster& cluster,
                             const Workload& workload) {
  const Scaling& last = rows.back().formula;
  std::string text;
  if (last.ranks > 1)
    text += fmt::format(
        "{} ranks: {} of {:.2f} ms of communication are hidden; {} bucket{}{}\n", last.ranks,
        last.communication_ms > 0 ? fmt::format("{:.0f} %", 100 * (1 - last.exposed_ms / last.communication_ms))
                                  : "all",
        last.communication_ms, last.rings + last.trees, last.rings + last.trees == 1 ? "" : "s",
        cluster.hosts() == 1 ? ", summed inside the host"
        : last.trees == 0    ? ", in a ring between the hosts"
        : last.rings == 0
            ? ", in a double binary tree between the hosts"
            : fmt::format(", {} in a ring, {} in a double binary tree between the hosts", last.rings, last.trees));
  text += about_memory(last, profile) + about_the_noise(rows, profile);
  text += fmt::format(
      "assumed: computing grows with the samples of a rank, but for {:.2f} ms of a step; slow ranks as in the profile "
      "(its slowest step took {:.2f} times the median)\n",
      profile.compute_ms -
          std::min(static_cast<double>(profile.micro_batches) * profile.costs.compute_ms, profile.compute_ms),
      profile.spread.back().value);
  if (workload.host_samples_per_second == 0 && profile.read_ms > 0)
    text += "assumed: each rank's threads read as fast as in the profile; --host-samples-per-second limits a host\n";
  if (profile.computes_with_collectives)
    text +=
        "this profile's computing has collectives in it (--zero or --sync-bn on several ranks): a profile of one rank "
        "predicts better\n";
  return text;
}

}  // namespace ddp
