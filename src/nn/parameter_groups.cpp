#include "nn/parameter_groups.h"

#include <algorithm>

namespace ddp {

bool matches(std::string_view match, std::string_view name) {
  size_t m = 0, n = 0, star = match.npos, resumed = 0;
  while (n < name.size()) {
    if (m < match.size() && match[m] == '*') {
      star = m++;
      resumed = n;
    } else if (m < match.size() && match[m] == name[n]) {
      ++m;
      ++n;
    } else if (star != match.npos) {  // the last star takes one more letter
      m = star + 1;
      n = ++resumed;
    } else {
      return false;
    }
  }
  return match.find_first_not_of('*', m) == match.npos;
}

std::vector<int> groups_of(std::span<const Parameter> parameters, std::span<const ParameterGroup> groups) {
  std::vector<int> of_each;
  for (const Parameter& p : parameters) {
    const auto found = std::ranges::find_if(groups, [&](const ParameterGroup& g) { return matches(g.match, p.name); });
    of_each.push_back(found == groups.end() ? -1 : static_cast<int>(found - groups.begin()));
  }
  return of_each;
}

std::string head_of(std::span<const Parameter> parameters) {
  const int layer = head_layer(parameters);
  const auto head = std::ranges::find(parameters, layer, &Parameter::layer);
  return layer < 0 ? "" : head->name.substr(0, head->name.rfind('.') + 1) + "*";
}

std::vector<OptimizerTensor> optimizer_tensors(std::span<const Parameter> parameters, const OptimizerDesc& desc,
                                               bool all_decay, std::span<const ParameterGroup> groups) {
  const std::vector<int> group_of = groups_of(parameters, groups);
  std::vector<OptimizerTensor> tensors;
  for (size_t id = 0; id < parameters.size(); ++id) {
    const Parameter& p = parameters[id];
    const ParameterGroup group = group_of[id] < 0 ? ParameterGroup() : groups[group_of[id]];
    const bool decays = all_decay || p.role == Parameter::Role::weight;
    tensors.push_back({.offset = p.offset,
                       .count = p.count,
                       .rate = static_cast<float>(group.rate),
                       .decay = decays ? static_cast<float>(group.weight_decay.value_or(desc.weight_decay)) : 0.0f,
                       .momentum = static_cast<float>(group.momentum.value_or(desc.momentum)),
                       .adapts = decays && group.weight_decay != 0.0});
  }
  return tensors;
}

}  // namespace ddp
