#include "app/run/run_groups.h"

#include "core/error.h"
#include "core/printable.h"

#include <algorithm>

namespace ddp {
namespace {

// The number of parameters. `group`: -1 for those without.
int64_t group_size(int group, std::span<const Parameter> parameters, std::span<const ParameterGroup> groups) {
  const std::vector<int> of_each = groups_of(parameters, groups);
  int64_t size = 0;
  for (size_t id = 0; id < parameters.size(); ++id)
    if (of_each[id] == group) size += parameters[id].count;
  return size;
}

void require_parameters(const std::string& whose, int group, std::span<const Parameter> parameters,
                        std::span<const ParameterGroup> groups) {
  if (group_size(group, parameters, groups) > 0) return;
  const std::string& match = groups[group].match;
  std::vector<std::string> names;
  for (const Parameter& p : parameters) names.push_back(p.name);
  require(std::ranges::none_of(names, [&](const std::string& name) { return matches(match, name); }), Exit::usage,
          "{} ({}) has no parameter: groups before it match all of them; change their order", whose, shortened(match));
  std::ranges::sort(names);
  fail(Exit::usage, "{} ({}) matches no trained parameter; the network has {}", whose, shortened(match),
       first_names(names));
}

}  // namespace

std::vector<ParameterGroup> groups_of_run(const Options& options, std::span<const Parameter> all) {
  const auto parameters = trained_of(all);
  std::vector<ParameterGroup> groups = options.replica.groups;
  if (options.head.lr) {
    groups.push_back(options.head);
    groups.back().match = head_of(all);
    require(!groups.back().match.empty(), Exit::usage,
            "--head-lr needs a last linear layer with a weight of its own; use --group");
  }
  for (size_t g = 0; g < groups.size(); ++g)
    require_parameters(g < options.replica.groups.size() ? fmt::format("group {}", g + 1) : "--head-lr",
                       static_cast<int>(g), parameters, groups);
  return groups;
}

std::string describe_groups(const Options& options, std::span<const Parameter> all) {
  const auto parameters = trained_of(all);
  const std::vector<ParameterGroup> groups = groups_of_run(options, all);
  if (groups.empty()) return "";
  const OptimizerDesc& desc = options.replica.optimizer;
  const auto line = [&](const std::string& name, int index, const ParameterGroup& group) {
    std::string text =
        fmt::format("{}: {} parameters, lr {:.4g}, weight decay {:.4g}", name, group_size(index, parameters, groups),
                    options.train.schedule.lr * group.rate, group.weight_decay.value_or(desc.weight_decay));
    if (desc.kind != OptimizerDesc::Kind::adam)
      text += fmt::format(", momentum {:.4g}", group.momentum.value_or(desc.momentum));
    return text + "\n";
  };
  std::string text;
  for (size_t g = 0; g < groups.size(); ++g)
    text += line(fmt::format("group {}", groups[g].match), static_cast<int>(g), groups[g]);
  if (group_size(-1, parameters, groups) > 0) text += line("other parameters", -1, {});
  if (!options.replica.all_decay) text += "biases and norms in all of them: no weight decay\n";
  return text;
}

}  // namespace ddp
