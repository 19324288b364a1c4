// The doctor's report: a row for each finding when its check ends, or one JSON object at the end.
#pragma once

#include "app/commands/doctor/finding.h"
#include "core/error.h"

#include <string>

namespace ddp::doctor {

// "cores            fault    ranks 0-1 on 1 of 2 cores of a", then a line each for the problem, the fix and the hint.
std::string row_of(const Finding& finding);

// The problem and its fix or hint in one line: "<problem>; fix: <fix>".
std::string line_of(const Finding& finding);

// The last line: "1 fault, 2 warnings".
std::string summary_of(const Findings& findings);

// {"format": 2, "ranks", "findings": [{"check", "verdict", "found", "problem", "fix" or "hint"}], "faults", "warnings",
// "exit_code"}
std::string json_of(const Findings& findings, int ranks);

Exit code_of(const Findings& findings);  // exit code of the first fault; Exit::done: none

}  // namespace ddp::doctor
