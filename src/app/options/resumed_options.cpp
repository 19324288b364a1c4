#include "app/options/resumed_options.h"

#include "app/options/option_table.h"
#include "app/options/resume.h"
#include "core/error.h"
#include "core/printable.h"
#include "core/split.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <string_view>
#include <utility>

namespace ddp {
namespace {

const OptionRow* find_row(const std::string& name) {
  const OptionRow* found = nullptr;
  for_each_row([&](const OptionRow& row) {
    if (row.name == name) found = &row;
  });
  return found;
}

bool is_kept(const OptionRow& row) { return row.on_resume.effect != Effect::process; }

void require_changeable(const std::string& name) {
  const OptionRow* const row = find_row(name);
  require(row != nullptr, Exit::usage, "--change: there is no option {}; ddp_train --help lists the options",
          shortened(name));
  require(is_kept(*row), Exit::usage, "--change: {} is no property of the run; give {} itself", name, name);
  const char* const why = row->on_resume.fixed_because;
  require(!why, Exit::usage,
          "--change: {} cannot change in a run: {}; begin a new run with the weights of this one by --init-from", name,
          why ? why : "");
}

// What older programs wrote: only options with an effect. "--dataset" is the kind of the data there.
NamedValues options_of_older(const RunState& saved) {
  NamedValues values = saved.affects_results;
  values.insert(saved.affects_rounding.begin(), saved.affects_rounding.end());
  std::erase_if(values, [](const auto& value) { return !value.first.starts_with("--") || value.first == "--dataset"; });
  return values;
}

// The values of the run that this process may have.
NamedValues values_of_run(const RunState& saved, int ranks) {
  NamedValues values = saved.options.empty() ? options_of_older(saved) : saved.options;
  std::erase_if(values, [](const auto& value) {
    const OptionRow* const row = find_row(value.first);
    return !row || !is_kept(*row);
  });
  const auto weights = values.find("--rank-weights");
  const bool listed = weights != values.end() && weights->second != "auto";
  if (listed && std::ranges::count(weights->second, ',') + 1 != ranks) values.erase(weights);
  return values;
}

// --on-error skip needs --check-data auto or full; auto is then full.
bool replaces_check(const NamedValues& asked, const Options& given, std::span<const OptionChange> pending) {
  NamedValues now = asked, earlier;
  now.insert(given.given.begin(), given.given.end());
  for (const OptionChange& change : pending) earlier[change.option] = change.to;
  now.insert(earlier.begin(), earlier.end());
  const auto found = now.find("--on-error");
  return found != now.end() && found->second == "skip" && !now.contains("--check-data");
}

// The entries of options by their own names become those of `options`. --model cannot change; its entry may be the hash
// of a file.
RunState with_options(RunState state, const Options& options) {
  for_each_row([&](const OptionRow& row) {
    const bool own_entry = !row.on_resume.recorded_as && row.name != std::string_view(kModelOption);
    if (row.on_resume.effect == Effect::results && own_entry) state.affects_results.erase(row.name);
  });
  state.affects_results.merge(results_options(options));
  return state;
}

// Of the options `names`.
std::vector<OptionChange> changes_between(const Options& before, const Options& after, const NamedValues& names,
                                          int64_t step) {
  const auto value_in = [](const Options& options, const std::string& name) {
    const auto found = options.named.find(name);
    return found == options.named.end() ? "" : found->second;
  };
  std::vector<OptionChange> changes;
  for (const auto& [name, value] : names) {
    const std::string from = value_in(before, name), to = value_in(after, name);
    if (!same_value(from, to)) changes.push_back({.step = step, .option = name, .from = from, .to = to});
  }
  return changes;
}

}  // namespace

NamedValues parse_changes(const std::string& text) {
  NamedValues changes;
  std::string* value = nullptr;
  for (const std::string& part : split(text, ',')) {
    const size_t equals = part.find('=');
    require(equals != part.npos || value, Exit::usage,
            "--change {}: give NAME=VALUE with commas between, such as lr=0.01,epochs=20, and true for a flag",
            shortened(text));
    if (equals == part.npos) {
      *value += "," + part;
      continue;
    }
    const size_t begin = std::min(part.find_first_not_of('-'), equals);
    const std::string name = "--" + part.substr(begin, equals - begin);
    require_changeable(name);
    const auto [place, is_new] = changes.try_emplace(name, part.substr(equals + 1));
    require(is_new, Exit::usage, "--change has {} twice; leave one of them out", name);
    value = &place->second;
  }
  return changes;
}

NamedValues kept_values(const Options& options) {
  NamedValues values = options.named;
  std::erase_if(values, [](const auto& value) { return !is_kept(*find_row(value.first)); });
  return values;
}

ResumedOptions resumed_options(const Options& given, const RunState& saved, std::span<const OptionChange> pending,
                               int ranks, const std::set<std::string>& left_out) {
  NamedValues own = values_of_run(saved, ranks);
  const NamedValues asked = parse_changes(given.checkpoint.change);
  std::erase_if(own, [&](const auto& value) { return left_out.contains(value.first); });
  if (replaces_check(asked, given, pending)) own.erase("--check-data");
  NamedValues kept = own, names = asked;
  Options before;
  try {
    before = options_of({}, own);
    for (const OptionChange& change : pending) {
      require_changeable(change.option);
      if (left_out.contains(change.option)) continue;
      kept[change.option] = change.to;
      names[change.option] = change.to;
    }
    options_of({}, kept);
  } catch (const Error& e) {
    fail(Exit::data, "the options that the run has recorded are wrong: {}; resume from another checkpoint", e.what());
  }
  const Options expected = options_of(asked, kept);
  ResumedOptions resumed{.options = {},
                         .changes = changes_between(before, expected, names, saved.step),
                         .expected = saved,
                         .optimizer_states = before.replica.optimizer.states(),
                         .left_out = left_out};
  if (!resumed.changes.empty()) resumed.expected = with_options(saved, expected);
  if (!saved.options.empty()) resumed.expected.options = kept_values(expected);

  // A given value that differs from that of the run stays: the comparison with `expected` refuses it by name. The
  // others may lose their meaning by a change. --batch-size max is the number that the run has found.
  NamedValues values = given.given;
  std::erase_if(values, [&](const auto& value) {
    const auto found = kept.find(value.first);
    if (found == kept.end()) return false;
    return same_value(found->second, value.second) || (value.first == "--batch-size" && value.second == "max");
  });
  for (const auto& [name, value] : asked) values[name] = value;
  resumed.options = options_of(values, kept);
  resumed.options.given.insert(given.given.begin(), given.given.end());
  return resumed;
}

std::vector<std::string> describe(const ResumedOptions& resumed) {
  const NamedValues defaults = options_of({}, {}).named;
  std::vector<std::string> kept, lines;
  for (const auto& [name, value] : kept_values(resumed.options)) {
    const auto found = defaults.find(name);
    const bool is_default = found != defaults.end() && same_value(found->second, value);
    const bool is_changed = std::ranges::any_of(resumed.changes, [&](const auto& c) { return c.option == name; });
    if (!is_default && !is_changed && !resumed.options.given.contains(name) && value != "false")
      kept.push_back(fmt::format("{} {}", name, shortened(value)));
  }
  if (!kept.empty()) lines.push_back(fmt::format("as in the run so far: {}", fmt::join(kept, ", ")));
  if (!resumed.left_out.empty())
    lines.push_back(fmt::format("at their defaults, because they do not fit this device or transport: {}",
                                fmt::join(resumed.left_out, ", ")));
  for (const OptionChange& change : resumed.changes)
    lines.push_back(fmt::format("changed after step {}: {} was {}, is {}", change.step, change.option,
                                change.from.empty() ? "not set" : shortened(change.from),
                                change.to.empty() ? "not set" : shortened(change.to)));
  return lines;
}

}  // namespace ddp
