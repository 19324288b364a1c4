// The output of ddp_train plan as text.
#pragma once

#include "ddp/run_profile.h"
#include "ddp/scaling.h"

#include <optional>
#include <span>
#include <string>
#include <vector>

namespace ddp {

struct PlannedScaling {
  Scaling formula;
  std::optional<double> simulated_ms = {};  // of a step; none: not simulated
};

// A line for each number of ranks; the first row is one rank, to which the others are compared. `simulates`: has a
// column of simulated times.
std::string scaling_table(std::span<const PlannedScaling> rows, const RunProfile& profile, bool simulates);

// What the profile is of, what limits the largest number of ranks, its memory, the noise scale, and what the prediction
// assumes: a line each.
std::string describe_profile(const RunProfile& profile);
std::string describe_scaling(std::span<const PlannedScaling> rows, const RunProfile& profile, const Cluster& cluster,
                             const Workload& workload);

}  // namespace ddp
