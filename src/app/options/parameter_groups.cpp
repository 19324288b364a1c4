#include "app/options/parameter_groups.h"

#include "core/error.h"
#include "core/printable.h"
#include "core/split.h"

#include <fmt/ranges.h>

#include <cmath>
#include <cstdlib>

namespace ddp {
namespace {

constexpr size_t kMostGroups = 64;
constexpr const char* kLettersOfNames = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.*";

struct GroupKey {
  const char* name;
  std::optional<double> ParameterGroup::*value;
  double largest;
};
constexpr GroupKey kGroupKeys[] = {{"lr", &ParameterGroup::lr, 1e38},
                                   {"weight-decay", &ParameterGroup::weight_decay, 1e38},
                                   {"momentum", &ParameterGroup::momentum, 1}};

void set_group_value(ParameterGroup& group, size_t number, const std::string& name, const std::string& text) {
  for (const GroupKey& key : kGroupKeys) {
    if (name != key.name) continue;
    std::optional<double>& value = group.*key.value;
    require(!value, Exit::usage, "group {} has {} twice; leave one of them out", number, name);
    char* end = nullptr;
    value = std::strtod(text.c_str(), &end);
    require(!text.empty() && *end == 0 && *value >= 0 && *value <= key.largest, Exit::usage,
            "group {}: {} {} is not a number from 0, at most {:g}", number, name, shortened(text), key.largest);
    return;
  }
  fail(Exit::usage, "group {}: there is no value \"{}\"; give lr, weight-decay or momentum", number, shortened(name));
}

}  // namespace

ParameterGroup group_of(size_t number, const std::string& match, const GroupValues& values) {
  require(!match.empty() && match.find_first_not_of(kLettersOfNames) == match.npos, Exit::usage,
          "group {} cannot match \"{}\": give the names of parameters, such as fc.weight, where * stands for any text, "
          "as in fc.*",
          number, shortened(match));
  require(!values.empty(), Exit::usage, "group {} ({}) has no value; give it lr, weight-decay or momentum", number,
          shortened(match));
  ParameterGroup group{.match = match};
  for (const auto& [name, text] : values) set_group_value(group, number, name, text);
  return group;
}

std::vector<ParameterGroup> parse_groups(const std::string& text) {
  std::vector<ParameterGroup> groups;
  for (const std::string& part : split(text, '/')) {
    const std::vector<std::string> fields = split(part, ':');
    GroupValues values;
    for (size_t i = 1; i < fields.size(); ++i) {
      const size_t equals = fields[i].find('=');
      require(equals != std::string::npos, Exit::usage, "group {}: \"{}\" is no value such as lr=0.1",
              groups.size() + 1, shortened(fields[i]));
      values.emplace_back(fields[i].substr(0, equals), fields[i].substr(equals + 1));
    }
    groups.push_back(group_of(groups.size() + 1, fields.empty() ? "" : fields[0], values));
  }
  require(groups.size() <= kMostGroups, Exit::usage, "there are {} groups; the limit is {}", groups.size(),
          kMostGroups);
  return groups;
}

std::string text_of_groups(std::span<const ParameterGroup> groups) {
  std::vector<std::string> texts;
  for (const ParameterGroup& group : groups) {
    std::string& text = texts.emplace_back(group.match);
    for (const GroupKey& key : kGroupKeys)
      if (const auto& value = group.*key.value) text += fmt::format(":{}={}", key.name, *value);
  }
  return fmt::format("{}", fmt::join(texts, "/"));
}

}  // namespace ddp
