#include "app/commands/doctor/report.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <utility>

namespace ddp::doctor {
namespace {

constexpr int kReportFormat = 2;  // format 1 had "mend" for "fix" and "look" for "hint"

const char* name_of(Verdict verdict) {
  return verdict == Verdict::ok ? "ok" : verdict == Verdict::warning ? "warning" : "fault";
}

auto count(const Findings& findings, Verdict verdict) {
  return std::count_if(findings.begin(), findings.end(), [&](const Finding& f) { return f.verdict == verdict; });
}

}  // namespace

std::string row_of(const Finding& f) {
  std::string text = fmt::format("{:<16} {:<8} {}", f.check, name_of(f.verdict), f.found);
  text.erase(text.find_last_not_of(' ') + 1);
  for (const auto& [label, line] : {std::pair("wrong:", f.problem), {"fix:", f.fix}, {"hint:", f.hint}})
    if (!line.empty()) text += fmt::format("\n{:>16} {}", label, line);
  return text + "\n";
}

std::string line_of(const Finding& f) {
  if (!f.fix.empty()) return fmt::format("{}; fix: {}", f.problem, f.fix);
  return f.hint.empty() ? f.problem : fmt::format("{}; hint: {}", f.problem, f.hint);
}

std::string summary_of(const Findings& findings) {
  const auto faults = count(findings, Verdict::fault), warnings = count(findings, Verdict::warning);
  return fmt::format("{} fault{}, {} warning{}\n", faults, faults == 1 ? "" : "s", warnings, warnings == 1 ? "" : "s");
}

std::string json_of(const Findings& findings, int ranks) {
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (const Finding& f : findings) {
    nlohmann::ordered_json one{{"check", f.check}, {"verdict", name_of(f.verdict)}, {"found", f.found}};
    for (const auto& [key, line] : {std::pair("problem", f.problem), {"fix", f.fix}, {"hint", f.hint}})
      if (!line.empty()) one[key] = line;
    all.push_back(one);
  }
  const nlohmann::ordered_json whole{{"format", kReportFormat},
                                     {"ranks", ranks},
                                     {"findings", all},
                                     {"faults", count(findings, Verdict::fault)},
                                     {"warnings", count(findings, Verdict::warning)},
                                     {"exit_code", static_cast<int>(code_of(findings))}};
  return whole.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

Exit code_of(const Findings& findings) {
  const auto first =
      std::find_if(findings.begin(), findings.end(), [](const Finding& f) { return f.verdict == Verdict::fault; });
  return first == findings.end() ? Exit::done : first->code;
}

}  // namespace ddp::doctor
