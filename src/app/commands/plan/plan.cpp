#include "app/commands/plan/plan.h"

#include "app/commands/plan/plan_options.h"
#include "app/commands/plan/scaling_table.h"
#include "comm/mpi/launcher.h"
#include "core/durable_file.h"
#include "core/log.h"
#include "core/printable.h"
#include "core/read_file.h"
#include "ddp/simulation.h"
#include "report/efficiency_drawing.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <system_error>
#include <vector>

namespace ddp {
namespace {

namespace fs = std::filesystem;
using Choice = PlanOptions::AllreduceChoice;

RunProfile read_profile(fs::path path) {
  constexpr int64_t kMostProfileBytes = 1 << 23;
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) {
    path /= kProfileFile;
    require(fs::exists(path, ignored), Exit::data,
            "{} does not exist: a run of this version writes it when it ends after three steps or more",
            printable(path.native()));
  }
  return profile_from(read_whole_file(path, kMostProfileBytes), printable(path.native()));
}

// Of the given numbers; what is not given is measured.
Link link_of(std::optional<double> latency_us, std::optional<double> bandwidth_gbs,
             const std::optional<Link>& measured) {
  constexpr double kBytesPerMs = 1e6;  // of 1 GB/s
  Link link = measured.value_or(Link());
  if (latency_us) link.latency_ms = *latency_us / 1000;
  if (bandwidth_gbs) link.ms_per_byte = 1 / (*bandwidth_gbs * kBytesPerMs);
  return link;
}

Cluster cluster_of(const PlanOptions& options, const RunProfile& profile) {
  const bool nccl = options.allreduce == Choice::nccl || (options.allreduce == Choice::automatic && profile.on_gpu);
  // Where GPUs sum inside hosts too, this is in the measured time.
  const std::optional<Link> network = nccl && profile.ranks_per_host > 1 ? std::nullopt : measured_network(profile);
  Cluster cluster{.ranks = options.world,
                  .ranks_per_host = options.ranks_per_host.value_or(profile.ranks_per_host),
                  .network = link_of(options.latency_us, options.bandwidth_gbs, network),
                  .inside = link_of(options.host_latency_us, options.host_bandwidth_gbs, measured_inside(profile)),
                  .allreduce = nccl ? Cluster::Allreduce::nccl : Cluster::Allreduce::shm};
  require(cluster.hosts() == 1 || network || (options.latency_us && options.bandwidth_gbs), Exit::usage,
          "{} ranks, {} on a host, are {} hosts, and the profile has no link between hosts{}: give --latency-us and "
          "--bandwidth-gbs",
          cluster.ranks, cluster.ranks_per_host, cluster.hosts(), profile.hosts == 1 ? "" : " alone");
  require(cluster.most_on_a_host() == 1 || measured_inside(profile) ||
              (options.host_latency_us && options.host_bandwidth_gbs),
          Exit::usage,
          "{} ranks on a host sum inside it, and the profile has no such link: give --host-latency-us and "
          "--host-bandwidth-gbs, or the profile of several ranks on one host",
          cluster.most_on_a_host());
  return cluster;
}

Workload workload_of(const PlanOptions& options, const RunProfile& profile) {
  Workload workload{.batch = options.batch.value_or(0),
                    .batch_per_rank = options.batch_per_rank.value_or(profile.shard * profile.micro_batches),
                    .host_samples_per_second = options.host_samples_per_second};
  if (options.bucket_cap_mb)
    workload.caps = BucketCaps{.cap_mb = *options.bucket_cap_mb,
                               .first_cap_mb = std::min(*options.bucket_cap_mb, BucketCaps().first_cap_mb)};
  return workload;
}

// 1, 2, 4, ... and `world`.
std::vector<int64_t> worlds_up_to(int64_t world) {
  std::vector<int64_t> worlds;
  for (int64_t ranks = 1; ranks < world; ranks *= 2) worlds.push_back(ranks);
  worlds.push_back(world);
  return worlds;
}

report::EfficiencyDrawing drawing_of(std::span<const PlannedScaling> rows, const std::string& title,
                                     const Cluster& cluster, bool simulates) {
  report::EfficiencyDrawing drawing{.title = title, .subtitle = "one host"};
  if (cluster.hosts() > 1)
    drawing.subtitle = fmt::format("{} rank{} a host, {:.3g} us and {:.3g} GB/s between hosts", cluster.ranks_per_host,
                                   cluster.ranks_per_host == 1 ? "" : "s", 1000 * cluster.network.latency_ms,
                                   cluster.network.ms_per_byte > 0 ? 1e-6 / cluster.network.ms_per_byte : 0);
  drawing.curves.push_back({.name = "predicted", .points = {}});
  if (simulates) drawing.curves.push_back({.name = "simulated", .points = {}});
  const PlannedScaling& one = rows.front();
  for (const PlannedScaling& row : rows) {
    const double ranks = static_cast<double>(row.formula.ranks), of_formula = efficiency(row.formula, one.formula);
    drawing.curves[0].points.push_back({.ranks = ranks, .efficiency = of_formula});
    if (row.simulated_ms && one.simulated_ms)
      drawing.curves[1].points.push_back({.ranks = ranks,
                                          .efficiency = of_formula * row.formula.step_ms / *row.simulated_ms *
                                                        *one.simulated_ms / one.formula.step_ms});
  }
  return drawing;
}

}  // namespace

Exit plan_cluster(std::span<const std::string> arguments, std::FILE* out) {
  const Environment environment = environment_of_process();
  if (!first_at_launch(environment)) return Exit::done;
  std::optional<std::string> answer;
  const PlanOptions options = parse_plan_options(arguments, answer);
  if (answer) {
    write_output(out, *answer, "the output");
    return Exit::done;
  }
  require_one_rank(environment, "plan");
  const RunProfile profile = read_profile(options.profile);
  const Cluster cluster = cluster_of(options, profile);
  const Workload workload = workload_of(options, profile);
  std::vector<PlannedScaling> rows;
  for (const int64_t ranks : worlds_up_to(options.world)) {
    Cluster part = cluster;
    part.ranks = ranks;
    PlannedScaling row{.formula = scaling_on(profile, part, workload)};
    if (options.simulate) row.simulated_ms = simulate_scaling(profile, part, workload, row.formula.data_ms);
    rows.push_back(row);
  }
  std::string text = describe_profile(profile) + "\n" + scaling_table(rows, profile, options.simulate) + "\n" +
                     describe_scaling(rows, profile, cluster, workload);
  if (!options.drawing.empty()) {
    NewFile file(options.drawing);
    file.write(report::draw_efficiency(drawing_of(rows, profile.network, cluster, options.simulate)));
    NewFile::keep(std::array{&file});
    text += printable(options.drawing) + "\n";
  }
  write_output(out, text, "the table");
  return Exit::done;
}

}  // namespace ddp
