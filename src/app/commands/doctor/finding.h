// The result of a doctor's check, and helpers that build it.
#pragma once

#include "core/error.h"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace ddp::doctor {

// fault: the run fails or does not use the hardware meant for it. warning: it runs, but slower or at a risk.
enum class Verdict : uint8_t { ok, warning, fault };

struct Finding {
  std::string check;  // name of the check, such as "cores"
  Verdict verdict = Verdict::ok;
  std::string found;       // the observed facts
  Exit code = Exit::done;  // exit code of a fault
  // Empty for ok. `problem`: what is wrong. `fix`: a line for the shell or for the launcher's command that repairs it.
  // `hint`: where no fix is known, a line that shows more about it.
  std::string problem, fix, hint;
};

using Findings = std::vector<Finding>;

inline Finding warn(std::string problem, std::string fix = "") {
  Finding finding;
  finding.verdict = Verdict::warning;
  finding.problem = std::move(problem);
  finding.fix = std::move(fix);
  return finding;
}
inline Finding fault(Exit code, std::string problem, std::string fix = "") {
  Finding finding = warn(std::move(problem), std::move(fix));
  finding.verdict = Verdict::fault;
  finding.code = code;
  return finding;
}
inline Finding hint(std::string line, Finding finding) {
  finding.hint = std::move(line);
  return finding;
}

// The findings of one check: its problems, or one finding that is ok. `found` goes into the first finding, unless that
// has its own.
inline Findings with_found(Findings problems, const std::string& check, std::string found) {
  if (problems.empty()) problems.emplace_back();
  if (problems.front().found.empty()) problems.front().found = std::move(found);
  for (Finding& finding : problems) finding.check = check;
  return problems;
}
inline Finding for_check(const std::string& check, Finding finding) {
  finding.check = check;
  return finding;
}
inline Findings all_ok(const std::string& check, std::string found) { return with_found({}, check, std::move(found)); }

// The problem in an error's message, without the advice after its last "; ".
inline std::string problem_of(const Error& error) {
  const std::string text = error.what();
  return text.substr(0, text.rfind("; "));
}

}  // namespace ddp::doctor
