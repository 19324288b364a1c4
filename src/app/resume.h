// Whether a run may go on from another's state: a pure decision.
#pragma once

#include "app/options.h"
#include "train/run_state.h"

#include <map>
#include <string>

namespace ddp {

// Of these options, what changes what is computed, and what but its rounding, by name.
std::map<std::string, std::string> mathematics_of(const Options& options);
std::map<std::string, std::string> bits_of(const Options& options);

// Throws Error(Exit::usage) that names every option that would change the mathematics, with both values.
void require_same_mathematics(const RunState& saved, const RunState& now, const std::string& checkpoint);

// Whether ranks see the same parts of each batch: as many of them, with the same weights.
bool same_parts(const RunState& saved, const RunState& now);

// What makes the rest of the run differ in rounding, such as "world size was 2, is 3"; empty: nothing.
std::string differing_bits(const RunState& saved, const RunState& now);

}  // namespace ddp
