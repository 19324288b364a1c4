// Whether a run may continue from the state of another: a pure decision.
#pragma once

#include "app/options.h"
#include "train/run_state.h"

#include <map>
#include <string>

namespace ddp {

// The options whose rows say that they affect results, and those that affect rounding only, by name.
std::map<std::string, std::string> results_options(const Options& options);
std::map<std::string, std::string> rounding_options(const Options& options);

// Throws Error(Exit::usage) that names every option that would change the results, with both values.
void require_same_results(const RunState& saved, const RunState& now, const std::string& checkpoint);

// Whether the world size and the weights of ranks are the same, so that each rank has the same part of each batch.
bool same_shards(const RunState& saved, const RunState& now);

// The entries that make the rest of the run differ in rounding, such as "world size was 2, is 3"; empty: none.
std::string rounding_differences(const RunState& saved, const RunState& now);

}  // namespace ddp
