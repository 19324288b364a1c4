#include "app/options/resume.h"

#include "app/inputs/model_source.h"
#include "app/options/option_table.h"
#include "core/error.h"
#include "core/printable.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

namespace ddp {
namespace {

using Named = std::map<std::string, std::string>;

constexpr const char* kShardEntries[] = {"world size", "--rank-weights"};

// Values by name of the options with this effect. A flag that is not set has no entry, nor has an option whose
// condition is not met.
Named options_with(Effect effect, const Options& options) {
  Named found;
  for_each_row([&](const OptionRow& row) {
    const OnResume& rule = row.on_resume;
    if (rule.effect != effect || rule.recorded_as || !rule.condition.met_by(options)) return;
    const auto value = options.named.find(row.name);
    if (value != options.named.end() && value->second != "false") found.insert(*value);
  });
  return found;
}

// IDX files do not say whose images they are; the entry "data set" compares the images themselves.
bool are_idx_kinds(const std::string& name, const std::string& a, const std::string& b) {
  const auto is_idx = [](const std::string& kind) { return kind == "mnist" || kind == "fashion-mnist"; };
  return name == "--dataset" && is_idx(a) && is_idx(b);
}

std::string value_in(const Named& values, const std::string& name) {
  const auto found = values.find(name);
  return found == values.end() ? "not set" : found->second;
}

// Such as "--lr was 0.1, is 0.2" for each name with different values.
std::vector<std::string> differences(const Named& saved, const Named& now) {
  std::set<std::string> names;
  for (const Named* values : {&saved, &now})
    for (const auto& [name, value] : *values) names.insert(name);
  std::vector<std::string> texts;
  for (const std::string& name : names) {
    const std::string before = value_in(saved, name), after = value_in(now, name);
    if (!same_value(before, after) && !are_idx_kinds(name, before, after))
      texts.push_back(fmt::format("{} was {}, is {}", shortened(name), printable(before), after));
  }
  return texts;
}

// The entries that changed rows share give way to the values of the options that they stand for.
void compare_by_options(const RunState& saved, const RunState& now, std::span<const std::string> changed, Named& before,
                        Named& after) {
  std::set<std::string> shared;
  for_each_row([&](const OptionRow& row) {
    const char* const entry = row.on_resume.recorded_as;
    if (entry && row.on_resume.effect == Effect::results && std::ranges::count(changed, row.name) > 0)
      shared.insert(entry);
  });
  for (const std::string& entry : shared)
    for (Named* const values : {&before, &after}) values->erase(entry);
  if (saved.options.empty()) return;  // of an older program
  for_each_row([&](const OptionRow& row) {
    if (!row.on_resume.recorded_as || !shared.contains(row.on_resume.recorded_as)) return;
    for (const auto& [options, values] : {std::pair(&saved.options, &before), {&now.options, &after}})
      if (const auto found = options->find(row.name); found != options->end()) values->insert(*found);
  });
}

// What --change needs to make the options in `before` those in `after`, without those that it refuses.
std::string as_changes(const Named& before, const Named& after) {
  std::vector<std::string> changes;
  for_each_row([&](const OptionRow& row) {
    const std::string from = value_in(before, row.name), to = value_in(after, row.name);
    const bool may = row.on_resume.effect == Effect::results && !row.on_resume.fixed_because;
    if (may && after.contains(row.name) && !same_value(from, to))
      changes.push_back(fmt::format("{}={}", std::string_view(row.name).substr(2), to));
  });
  return fmt::format("{}", fmt::join(changes, ","));
}

}  // namespace

bool same_value(const std::string& a, const std::string& b) {
  const auto whole = [](const std::string& text) { return text.find_first_not_of("0123456789") == text.npos; };
  if (a == b || (whole(a) && whole(b))) return a == b;
  char *end_a = nullptr, *end_b = nullptr;
  const double number_a = std::strtod(a.c_str(), &end_a), number_b = std::strtod(b.c_str(), &end_b);
  return !a.empty() && !b.empty() && *end_a == 0 && *end_b == 0 && number_a == number_b;
}

Named results_options(const Options& options) {
  Named found = options_with(Effect::results, options);
  const ModelFile& source = options.network.source;
  if (!source.name.empty()) found[kModelOption] = identity_of(source);
  return found;
}

Named rounding_options(const Options& options) {
  Named found = options_with(Effect::rounding, options);
  found["version"] = DDP_VERSION;
  return found;
}

void require_same_results(const RunState& saved, const RunState& now, const std::string& checkpoint,
                          std::span<const std::string> changed) {
  Named before = saved.affects_results, after = now.affects_results;
  compare_by_options(saved, now, changed, before, after);
  const auto texts = differences(before, after);
  if (texts.empty()) return;
  const std::string changes = as_changes(before, after);
  fail(Exit::usage,
       "{} cannot be resumed by this run: {}; leave out what differs, and the run keeps its own values{}; or begin a "
       "new run with its weights by --init-from",
       checkpoint, fmt::join(texts, "; "), changes.empty() ? "" : ", or change them by --change " + changes);
}

void require_possible(const RunState& saved, int64_t steps_per_epoch, int64_t batch, const std::string& checkpoint) {
  const bool possible = saved.epoch == saved.step / steps_per_epoch &&
                        saved.cursor == saved.step % steps_per_epoch * batch && saved.samples / batch <= saved.step;
  require(possible, Exit::data,
          "{} cannot be right: step {} is not {} samples into epoch {}, after {} samples; resume from another one",
          checkpoint, saved.step, saved.cursor, saved.epoch, saved.samples);
}

bool same_shards(const RunState& saved, const RunState& now) {
  return std::ranges::all_of(kShardEntries, [&](const char* name) {
    return value_in(saved.affects_rounding, name) == value_in(now.affects_rounding, name);
  });
}

// Another world size has another order of sums; one rank has none.
std::string rounding_differences(const RunState& saved, const RunState& now) {
  Named before = saved.affects_rounding, after = now.affects_rounding;
  if (value_in(before, "world size") != value_in(after, "world size"))
    for (Named* const values : {&before, &after}) values->erase("order of sums");
  return fmt::format("{}", fmt::join(differences(before, after), "; "));
}

}  // namespace ddp
