// The parameter groups of a run with its network.
#pragma once

#include "app/options/options.h"
#include "nn/parameter_groups.h"

#include <span>
#include <string>
#include <vector>

namespace ddp {

// Those of --group, then that of --head-lr. Throws Error(Exit::usage) where one has no parameter.
std::vector<ParameterGroup> groups_of_run(const Options& options, std::span<const Parameter> parameters);

// A line for each group, and one for the parameters without; empty where there are no groups. Rates are those of the
// schedule without warm-up.
std::string describe_groups(const Options& options, std::span<const Parameter> parameters);

}  // namespace ddp
