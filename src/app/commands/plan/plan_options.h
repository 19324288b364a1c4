// The command line of ddp_train plan.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>

namespace ddp {

struct PlanOptions {
  enum class AllreduceChoice : uint8_t { automatic, nccl, shm };

  std::filesystem::path profile;  // a file, or the folder of a run
  int64_t world = 1;
  std::optional<int64_t> ranks_per_host = {};  // none: as in the profile
  // None: as measured in the profile.
  std::optional<double> latency_us = {}, bandwidth_gbs = {}, host_latency_us = {}, host_bandwidth_gbs = {};
  std::optional<int64_t> batch = {}, batch_per_rank = {};  // at most one of them; none: the profile's, for each rank
  std::optional<double> bucket_cap_mb = {};
  double host_samples_per_second = 0;  // 0: as fast as the ranks' threads
  AllreduceChoice allreduce = AllreduceChoice::automatic;
  bool simulate = false;
  std::string drawing = {};  // SVG file, which does not exist; empty: none
};

inline constexpr int64_t kLargestWorld = 1 << 16;

// Parses the arguments after "plan". A request for help sets `answer` to its text. Throws Error(Exit::usage).
PlanOptions parse_plan_options(std::span<const std::string> arguments, std::optional<std::string>& answer);

}  // namespace ddp
