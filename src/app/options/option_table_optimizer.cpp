// Options of the optimizer.
#include "app/options/option_table.h"
#include "app/options/parameter_groups.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace ddp {
namespace {

using Optimizer = OptimizerDesc::Kind;

bool is_adam(const Options& o) { return o.replica.optimizer.kind == Optimizer::adam; }
bool is_sgd(const Options& o) { return o.replica.optimizer.kind == Optimizer::sgd; }
bool is_lars(const Options& o) { return o.replica.optimizer.kind == Optimizer::lars; }
bool decays(const Options& o) {
  const auto group_decays = [](const ParameterGroup& g) { return g.weight_decay > 0.0; };
  return o.replica.optimizer.weight_decay > 0 || std::ranges::any_of(o.replica.groups, group_decays);
}

constexpr Condition kOfAdam{"needs --optimizer adam or adamw", is_adam};

// adamw is adam with decoupled decay. Other optimizers leave `decoupled` alone: a configuration file may have --decay
// before --optimizer.
void set_optimizer(Options& o, const std::string& name) {
  o.replica.optimizer.kind = name == "sgd" ? Optimizer::sgd : name == "lars" ? Optimizer::lars : Optimizer::adam;
  if (name == "adamw") o.replica.optimizer.decoupled = true;
}

CLI::Option* declare_groups(CLI::App& app, const std::string& name, Options& options) {
  const auto set = [&options](const std::string& text) { options.replica.groups = parse_groups(text); };
  const auto rewrite = [](std::string& text) {  // so that equal groups are equal values
    text = text_of_groups(parse_groups(text));
    return std::string();
  };
  return app.add_option_function<std::string>(name, set)->transform(CLI::Validator(rewrite, ""));
}

std::string conflict_of_rate(const Options& o, const ParameterGroup& group) {
  if (!group.lr) return "";
  const double lr = o.train.schedule.lr;
  if (!(lr > 0)) return "needs --lr above 0, because the schedule multiplies both";
  const auto is_finite = [](double value) { return std::isfinite(static_cast<float>(value)); };
  return is_finite(group.rate) && is_finite(group.rate * lr) ? ""
                                                             : "must be finite times --lr-scale, and divided by --lr";
}

std::string conflict_of_groups(const Options& o) {
  for (size_t i = 0; i < o.replica.groups.size(); ++i) {
    const ParameterGroup& group = o.replica.groups[i];
    if (group.momentum && is_adam(o))
      return fmt::format("{} has a momentum, which needs --optimizer sgd or lars", i + 1);
    const std::string conflict = conflict_of_rate(o, group);
    if (!conflict.empty()) return fmt::format("{} has an lr, which {}", i + 1, conflict);
  }
  return "";
}

}  // namespace

OptionGroup optimizer_options() {
  return {
      "Optimizer",
      {{.name = "--optimizer",
        .target = through<std::string>("sgd", set_optimizer),
        .on_resume = OnResume::fixed("its state belongs to this rule"),
        .help = "rule that updates the weights",
        .check = CLI::IsMember(std::vector<std::string>{"sgd", "adam", "adamw", "lars"})},
       {.name = "--momentum",
        .target = to([](Options & o) -> auto& { return o.replica.optimizer.momentum; }),
        .on_resume = Effect::results,
        .help = "momentum factor",
        .check = number(0, 1),
        .condition = {"needs --optimizer sgd or lars", [](const Options& o) { return !is_adam(o); }}},
       {.name = "--nesterov",
        .target = to([](Options & o) -> auto& { return o.replica.optimizer.nesterov; }),
        .on_resume = Effect::results,
        .help = "Nesterov's momentum",
        .condition = {"needs --optimizer sgd and --momentum above 0",
                      [](const Options& o) { return is_sgd(o) && o.replica.optimizer.momentum > 0; }}},
       {.name = "--weight-decay",
        .target = to([](Options & o) -> auto& { return o.replica.optimizer.weight_decay; }),
        .on_resume = Effect::results,
        .help = "weight decay; adamw decouples it from the gradient",
        .check = number(0, kLargestFloat)},
       {.name = "--decay",
        .target = one_of<bool>(
            {{"l2", false}, {"decoupled", true}}, [](Options & o) -> auto& { return o.replica.optimizer.decoupled; }),
        .on_resume = Effect::results,
        .help = "add the weight decay to the gradient (l2), or subtract it from the weights (decoupled)",
        .condition = {"needs --optimizer sgd and --weight-decay above 0",
                      [](const Options& o) { return is_sgd(o) && decays(o); }}},
       {.name = "--no-decay-bias-norm",
        .target = to_false([](Options & o) -> auto& { return o.replica.all_decay; }),
        .on_resume = Effect::results,
        .help = "biases and norm parameters have no weight decay, and lars does not adapt their rate",
        .condition = {"needs --weight-decay above 0, or --optimizer lars",
                      [](const Options& o) { return decays(o) || is_lars(o); }}},
       {.name = "--group",
        .target = declare_groups,
        .on_resume = Effect::results,
        .help =
            "values of some parameters, as fc.*:lr=0.1:weight-decay=0/conv1.weight:momentum=0.8 or as tables [[group]] "
            "of the file of --config, with match, lr, weight-decay and momentum; a parameter belongs to the first "
            "group that matches its name; the schedule and --lr-scale multiply lr as --lr",
        .conflict = conflict_of_groups},
       {.name = "--head-lr",
        .target = to([](Options & o) -> auto& { return o.head.lr; }),
        .on_resume = Effect::results,
        .help = "lr of the last linear layer: a group after those of --group",
        .check = number(0, kLargestFloat),
        .conflict = [](const Options& o) { return conflict_of_rate(o, o.head); }},
       {.name = "--adam-beta1",
        .target = to([](Options & o) -> auto& { return o.replica.optimizer.beta1; }),
        .on_resume = Effect::results,
        .help = "decay rate of the first moment",
        .check = number(0, 0.999999),
        .condition = kOfAdam},
       {.name = "--adam-beta2",
        .target = to([](Options & o) -> auto& { return o.replica.optimizer.beta2; }),
        .on_resume = Effect::results,
        .help = "decay rate of the second moment",
        .check = number(0, 0.999999),
        .condition = kOfAdam},
       {.name = "--adam-epsilon",
        .target = to([](Options & o) -> auto& { return o.replica.optimizer.epsilon; }),
        .on_resume = Effect::results,
        .help = "term added to the denominator",
        .check = number(0, 1),
        .condition = kOfAdam},
       {.name = "--lars-trust",
        .target = to([](Options & o) -> auto& { return o.replica.optimizer.trust; }),
        .on_resume = Effect::results,
        .help = "trust coefficient",
        .check = above_0(kLargestFloat),
        .condition = {"needs --optimizer lars", is_lars}}}};
}

}  // namespace ddp
