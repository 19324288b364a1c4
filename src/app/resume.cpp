#include "app/resume.h"

#include "app/option_table.h"
#include "core/error.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <set>
#include <vector>

namespace ddp {
namespace {

using Named = std::map<std::string, std::string>;

constexpr const char* kParts[] = {"world size", "--rank-weights"};

// The options with this effect, by name, with their values. A flag that is not set and an option without a meaning for
// this run have no entry.
Named options_with(Effect effect, const Options& options) {
  Named found;
  for (const OptionGroup& group : option_table())
    for (const OptionRow& row : group.rows) {
      const OnResume& rule = row.on_resume;
      if (rule.effect != effect || rule.recorded_as || !rule.condition.met_by(options)) continue;
      const auto value = options.named.find(row.name);
      if (value != options.named.end() && value->second != "false") found.insert(*value);
    }
  return found;
}

Named defaults_with(Effect effect) {
  const char* const no_options[] = {"ddp_train"};
  std::optional<std::string> answer;
  return options_with(effect, parse_options(1, no_options, answer));
}

bool same_value(const std::string& a, const std::string& b) {
  const auto whole = [](const std::string& text) { return text.find_first_not_of("0123456789") == text.npos; };
  if (a == b || (whole(a) && whole(b))) return a == b;
  char *end_a = nullptr, *end_b = nullptr;
  const double number_a = std::strtod(a.c_str(), &end_a), number_b = std::strtod(b.c_str(), &end_b);
  return !a.empty() && !b.empty() && *end_a == 0 && *end_b == 0 && number_a == number_b;
}

std::string kept_in(const Named& values, const std::string& name) {
  const auto found = values.find(name);
  return found == values.end() ? "not set" : found->second;
}

// "--lr was 0.1, is 0.2" for each name that has another value. A state of an older version may lack options to which a
// later version gave an effect: of `defaults`, only those are compared that it has.
std::vector<std::string> differences(const Named& saved, const Named& now, const Named& defaults) {
  std::set<std::string> names;
  for (const Named* values : {&saved, &now})
    for (const auto& [name, value] : *values) names.insert(name);
  std::vector<std::string> texts;
  for (const std::string& name : names) {
    if (defaults.contains(name) && !saved.contains(name)) continue;
    const std::string before = kept_in(saved, name), after = kept_in(now, name);
    if (!same_value(before, after)) texts.push_back(fmt::format("{} was {}, is {}", name, before, after));
  }
  return texts;
}

}  // namespace

Named mathematics_of(const Options& options) { return options_with(Effect::results, options); }

Named bits_of(const Options& options) {
  Named found = options_with(Effect::rounding, options);
  found["version"] = DDP_VERSION;
  return found;
}

void require_same_mathematics(const RunState& saved, const RunState& now, const std::string& checkpoint) {
  const auto changed = differences(saved.affects_results, now.affects_results, defaults_with(Effect::results));
  require(changed.empty(), Exit::usage,
          "{} cannot be resumed by this run: {}; give the earlier values, or begin a new run with its weights by "
          "--init-from",
          checkpoint, fmt::join(changed, "; "));
}

bool same_parts(const RunState& saved, const RunState& now) {
  return std::ranges::all_of(kParts, [&](const char* name) {
    return kept_in(saved.affects_rounding, name) == kept_in(now.affects_rounding, name);
  });
}

std::string differing_bits(const RunState& saved, const RunState& now) {
  return fmt::format(
      "{}",
      fmt::join(differences(saved.affects_rounding, now.affects_rounding, defaults_with(Effect::rounding)), "; "));
}

}  // namespace ddp
