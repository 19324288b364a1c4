// What a check of the doctor found, and what mends it.
#pragma once

#include "core/error.h"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace ddp::doctor {

// A fault: the run fails, or does not use what was meant for it. A warning: it runs, slower or at a risk.
enum class Verdict : uint8_t { ok, warning, fault };

struct Finding {
  std::string check;  // "cores"
  Verdict verdict = Verdict::ok;
  std::string found;
  Exit code = Exit::done;  // of a fault
  // Where not ok: what is wrong, and a line for the shell or for the launcher's command that mends it; where none is
  // known to, one that shows more of it, or nothing.
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

// Findings of one check: its problems, of which the first has `found` where it has none of its own; without a problem,
// that all is well.
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

// What an error of the run says is wrong, without its advice, which is the doctor's to give.
inline std::string problem_of(const Error& error) {
  const std::string text = error.what();
  return text.substr(0, text.rfind("; "));
}

}  // namespace ddp::doctor
