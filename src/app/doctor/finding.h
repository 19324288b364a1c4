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
  std::string problem, mend;  // where not ok: what is wrong; a line for the shell, or for the launcher's command
  Exit code = Exit::done;     // of a fault
};

using Findings = std::vector<Finding>;

inline Finding fine(const char* check, std::string found) {
  return {check, Verdict::ok, std::move(found), "", "", Exit::done};
}
inline Finding warn(const char* check, std::string problem, std::string mend) {
  return {check, Verdict::warning, "", std::move(problem), std::move(mend), Exit::done};
}
inline Finding fault(const char* check, Exit code, std::string problem, std::string mend) {
  return {check, Verdict::fault, "", std::move(problem), std::move(mend), code};
}

// What is well, then what is wrong; `found` is said of the first where it says nothing itself.
inline Findings with_found(Findings problems, const char* check, std::string found) {
  if (problems.empty()) return {fine(check, std::move(found))};
  if (problems.front().found.empty()) problems.front().found = std::move(found);
  return problems;
}

}  // namespace ddp::doctor
