#include "app/commands/plan/plan_options.h"

#include "app/options/parse_command.h"
#include "core/error.h"

#include <CLI/CLI.hpp>

#include <cmath>
#include <map>
#include <utility>

namespace ddp {

PlanOptions parse_plan_options(std::span<const std::string> arguments, std::optional<std::string>& answer) {
  using Choice = PlanOptions::AllreduceChoice;
  PlanOptions options;
  std::string profile;
  CLI::App app(
      "Predicts a training on more ranks and hosts from the profile of a run: the time of a step, communication that "
      "is not hidden, efficiency, and the memory of a rank. Trains nothing.",
      "ddp_train plan");
  app.add_option("--profile", profile, "profile.json of a run, or the folder of the run")->required();
  app.add_option("--world", options.world, "largest number of ranks; the table has 1, 2, 4, ... up to it")
      ->required()
      ->check(CLI::Range(int64_t{1}, kLargestWorld));
  app.add_option("--ranks-per-host", options.ranks_per_host, "ranks of a host; default: as in the profile")
      ->check(CLI::Range(int64_t{1}, kLargestWorld));
  const CLI::Range latency(0.0, 1e7), bandwidth(1e-6, 1e6);
  app.add_option("--latency-us", options.latency_us,
                 "latency of a message between hosts; default: that of the profile, if its run had several hosts")
      ->check(latency);
  app.add_option("--bandwidth-gbs", options.bandwidth_gbs,
                 "GB/s of a host's network in each direction; default: as --latency-us")
      ->check(bandwidth);
  app.add_option(
         "--host-latency-us", options.host_latency_us,
         "latency of a message inside a host; default: that of the profile, if its run had several ranks on one "
         "host")
      ->check(latency);
  app.add_option("--host-bandwidth-gbs", options.host_bandwidth_gbs,
                 "GB/s of a rank inside a host; default: as --host-latency-us")
      ->check(bandwidth);
  const CLI::Range samples(int64_t{1}, int64_t{1} << 40);
  CLI::Option* const batch = app.add_option("--batch-size", options.batch,
                                            "samples of a step over all ranks, the same for each number of ranks");
  batch->check(samples);
  app.add_option("--batch-per-rank", options.batch_per_rank,
                 "samples of a step on each rank; default: the largest shard of the profile's run")
      ->check(samples)
      ->excludes(batch);
  app.add_option("--allreduce", options.allreduce,
                 "auto, nccl, shm: how ranks sum; nccl: inside each host, then in a ring or a double binary tree, "
                 "whichever is faster for a bucket; shm: as CPU ranks do; auto: nccl for the profile of a GPU")
      ->transform(CLI::CheckedTransformer(
          std::map<std::string, Choice>{{"auto", Choice::automatic}, {"nccl", Choice::nccl}, {"shm", Choice::shm}}));
  app.add_option("--bucket-cap-mb", options.bucket_cap_mb, "largest bucket in MiB; default: as a run would cut them")
      ->check(CLI::Range(1e-3, 1e6));
  app.add_option("--host-samples-per-second", options.host_samples_per_second,
                 "samples that a host can read in a second; default: as fast as its ranks' threads read in the profile")
      ->check(CLI::Range(1e-3, 1e12));
  app.add_flag("--simulate", options.simulate, "also simulate the steps, each message between hosts as an event");
  app.add_option("--svg", options.drawing, "draw the efficiency over the ranks to this file, which must not exist");
  if (!parse_command(app, arguments, answer)) return options;
  options.profile = profile;
  for (const auto& [name, number] :
       {std::pair("--latency-us", options.latency_us), std::pair("--bandwidth-gbs", options.bandwidth_gbs),
        std::pair("--host-latency-us", options.host_latency_us),
        std::pair("--host-bandwidth-gbs", options.host_bandwidth_gbs),
        std::pair("--bucket-cap-mb", options.bucket_cap_mb),
        std::pair("--host-samples-per-second", std::optional(options.host_samples_per_second))})
    require(!number || !std::isnan(*number), Exit::usage, "{} is not a number", name);
  require(options.drawing.empty() || options.drawing.ends_with(".svg"), Exit::usage,
          "--svg {}: the name must end in .svg", options.drawing);
  return options;
}

}  // namespace ddp
