// Whether a run may continue from the state of another: a pure decision.
#pragma once

#include "app/options/options.h"
#include "checkpoint/run_state.h"

#include <cstdint>
#include <map>
#include <span>
#include <string>

namespace ddp {

inline constexpr const char* kModelOption = "--model";

// Values by name of the options whose rows have the effect results, and of those with the effect rounding. --model has
// its identity_of(), once the network has been read.
std::map<std::string, std::string> results_options(const Options& options);
std::map<std::string, std::string> rounding_options(const Options& options);

// Throws Error(Exit::usage) that names every option that would change the results, with both values. An entry that
// several options share, and of which a row in `changed` is one, is compared by the options in `saved.options`.
void require_same_results(const RunState& saved, const RunState& now, const std::string& checkpoint,
                          std::span<const std::string> changed = {});

// Whether two values of an option are equal: as texts, or as numbers such as 0.10 and .1.
bool same_value(const std::string& a, const std::string& b);

// Throws Error(Exit::data) if the counters of a checkpoint contradict each other. Its checksums are no proof: whoever
// makes a checkpoint makes them too. `batch`: samples of a full global batch.
void require_possible(const RunState& saved, int64_t steps_per_epoch, int64_t batch, const std::string& checkpoint);

// Whether world size and rank weights are equal. Each rank then has the same shard of each batch.
bool same_shards(const RunState& saved, const RunState& now);

// Text of the differences that change the rounding of the rest of the run, such as "world size was 2, is 3"; empty:
// none.
std::string rounding_differences(const RunState& saved, const RunState& now);

}  // namespace ddp
