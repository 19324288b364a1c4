// The options of a resumed run: what is not given now is as in the run, and --change changes the run.
#pragma once

#include "app/options/options.h"
#include "checkpoint/run_state.h"
#include "core/option_change.h"

#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <vector>

namespace ddp {

// The values of --change by name: NAME=VALUE with commas between. A part without "=" belongs to the value before, as in
// lr-milestones=30,60. Throws Error(Exit::usage) where there is no such option, or where its row does not allow it.
NamedValues parse_changes(const std::string& text);

// The values of `options` that a resumed run keeps.
NamedValues kept_values(const Options& options);

struct ResumedOptions {
  Options options;                    // of this process
  std::vector<OptionChange> changes;  // since the checkpoint, from its step on, by name
  // The state of the checkpoint as if its run had had the changed options. What is given now must not differ from it.
  RunState expected;
  int optimizer_states = 0;  // in the checkpoint
  std::set<std::string> left_out;
};

// A value of --change wins, then `given` ones, then those of the run. `pending`: changes that the run has made since
// the checkpoint, in order; they hold as if --change gave them again. `ranks`: of this process's world; the run's
// --rank-weights hold for as many ranks only. Throws Error: Exit::usage for a wrong change or values that exclude each
// other, Exit::data where the values of `saved` are no options. `left_out`: kept options that do not fit this device;
// they take their defaults.
ResumedOptions resumed_options(const Options& given, const RunState& saved, std::span<const OptionChange> pending,
                               int ranks, const std::set<std::string>& left_out = {});

// Lines for the user: the kept values that are not defaults, the options that are left out, and each change.
std::vector<std::string> describe(const ResumedOptions& resumed);

}  // namespace ddp
