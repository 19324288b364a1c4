// Options of the learning rate.
#include "app/options/option_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace ddp {
namespace {

using Schedule = ScheduleDesc::Kind;

double group_rate(const ParameterGroup& group, double lr) { return group.lr && lr > 0 ? *group.lr / lr : 1; }

bool warms_up(const Options& o) { return o.train.schedule.warm_up_epochs > 0; }
bool in_steps(const Options& o) { return o.train.schedule.kind == Schedule::step; }
bool at_milestones(const Options& o) { return o.train.schedule.kind == Schedule::multi_step; }
bool in_one_cycle(const Options& o) { return o.train.schedule.kind == Schedule::one_cycle; }
bool has_minimum(const Options& o) {
  return o.train.schedule.kind == Schedule::cosine || o.train.schedule.kind == Schedule::linear ||
         rate_depends_on_evaluations(o);
}

constexpr Condition kOfOneCycle{"needs --lr-scheduler onecycle", in_one_cycle};
constexpr Condition kOfPlateau{"needs --lr-scheduler plateau", rate_depends_on_evaluations};

std::string conflict_of_milestones(const Options& o) {
  const std::vector<double>& epochs = o.train.schedule.milestones;
  if (at_milestones(o) && epochs.empty()) return "must be given with --lr-scheduler multistep, such as 30,60";
  return std::ranges::is_sorted(epochs) ? "" : "must ascend";
}

}  // namespace

bool rate_depends_on_epochs(const Options& o) {
  const Schedule kind = o.train.schedule.kind;
  return kind == Schedule::cosine || kind == Schedule::linear || kind == Schedule::polynomial ||
         kind == Schedule::one_cycle;
}

bool rate_depends_on_evaluations(const Options& o) { return o.train.schedule.kind == Schedule::plateau; }

OptionGroup learning_rate_options() {
  return {"Learning rate",
          {{.name = "--lr",
            .target = to([](Options & o) -> auto& { return o.train.schedule.lr; }),
            .on_resume = Effect::results,
            .help = "learning rate, multiplied only by --lr-scale",
            .check = number(0, kLargestFloat),
            .conflict = [](const Options& o) -> std::string {
              return std::isfinite(static_cast<float>(o.train.schedule.lr)) ? "" : "times --lr-scale must be finite";
            }},
           {.name = "--lr-scale",
            .target = one_of<RateScale>(
                {{"none", RateScale::none}, {"linear", RateScale::linear}, {"sqrt", RateScale::sqrt}},
                [](Options & o) -> auto& { return o.lr_scaling.kind; }),
            .on_resume = Effect::results,
            .help = "multiply --lr by --batch-size / --lr-base-batch, or by the square root of that"},
           {.name = "--lr-base-batch",
            .target = to([](Options & o) -> auto& { return o.lr_scaling.base_batch; }),
            .on_resume = Effect::results,
            .help = "global batch for which --lr is right",
            .check = CLI::PositiveNumber,
            .condition = {"needs --lr-scale linear or sqrt",
                          [](const Options& o) { return o.lr_scaling.kind != RateScale::none; }}},
           {.name = "--lr-scheduler",
            .target = one_of<Schedule>(
                {{"constant", Schedule::constant},
                 {"step", Schedule::step},
                 {"steplr", Schedule::step},
                 {"multistep", Schedule::multi_step},
                 {"multisteplr", Schedule::multi_step},
                 {"cosine", Schedule::cosine},
                 {"cosineannealinglr", Schedule::cosine},
                 {"linear", Schedule::linear},
                 {"polynomial", Schedule::polynomial},
                 {"onecycle", Schedule::one_cycle},
                 {"plateau", Schedule::plateau}},
                [](Options & o) -> auto& { return o.train.schedule.kind; }),
            .on_resume = Effect::results,
            .help = "schedule of the learning rate after the warm-up; onecycle: up to --lr and down to nearly 0 over "
                    "all steps, without a cycle of the momentum; plateau: down when evaluations stop getting better",
            .conflict = [](const Options& o) -> std::string {
              return !rate_depends_on_evaluations(o) || o.train.eval_every > 0 ? ""
                                                                               : "plateau needs --eval-every above 0";
            }},
           {.name = "--lr-step-size",
            .target = to([](Options & o) -> auto& { return o.train.schedule.step_epochs; }),
            .on_resume = Effect::results,
            .help = "epochs between two reductions",
            .check = above_0(kLargestFloat),
            .condition = {"needs --lr-scheduler step", in_steps}},
           {.name = "--lr-milestones",
            .target = to([](Options & o) -> auto& { return o.train.schedule.milestones; }),
            .on_resume = Effect::results,
            .help = "epochs of the reductions, counted from the end of the warm-up, such as 30,60",
            .check = number(0, kLargestFloat),
            .condition = {"needs --lr-scheduler multistep", at_milestones},
            .conflict = conflict_of_milestones},
           {.name = "--lr-gamma",
            .target = to([](Options & o) -> auto& { return o.train.schedule.gamma; }),
            .on_resume = Effect::results,
            .help = "factor of each reduction",
            .check = above_0(kLargestFloat),
            .condition = {"needs --lr-scheduler step, multistep or plateau",
                          [](const Options& o) {
                            return in_steps(o) || at_milestones(o) || rate_depends_on_evaluations(o);
                          }},
            .conflict = [](const Options& o) -> std::string {
              return !rate_depends_on_evaluations(o) || o.train.schedule.gamma < 1
                         ? ""
                         : "must be below 1 with --lr-scheduler plateau";
            }},
           {.name = "--lr-min",
            .target = to([](Options & o) -> auto& { return o.train.schedule.min_lr; }),
            .on_resume = Effect::results,
            .help = "learning rate at the end of the last epoch; of plateau: the least rate",
            .check = number(0, kLargestFloat),
            .condition = {"needs --lr-scheduler cosine, linear or plateau", has_minimum},
            .conflict = [](const Options& o) -> std::string {
              const ScheduleDesc& s = o.train.schedule;
              return !has_minimum(o) || s.min_lr <= s.lr ? ""
                                                         : fmt::format("must be at most the rate, which is {:g}", s.lr);
            }},
           {.name = "--lr-power",
            .target = to([](Options & o) -> auto& { return o.train.schedule.power; }),
            .on_resume = Effect::results,
            .help = "power of the share of the steps that is left",
            .check = number(0, kLargestFloat),
            .condition = {"needs --lr-scheduler polynomial",
                          [](const Options& o) { return o.train.schedule.kind == Schedule::polynomial; }}},
           {.name = "--lr-pct-start",
            .target = to([](Options & o) -> auto& { return o.train.schedule.pct_start; }),
            .on_resume = Effect::results,
            .help = "share of the steps in which the rate rises to --lr",
            .check = number(0, 1),
            .condition = kOfOneCycle},
           {.name = "--lr-div-factor",
            .target = to([](Options & o) -> auto& { return o.train.schedule.div_factor; }),
            .on_resume = Effect::results,
            .help = "--lr divided by the first rate",
            .check = above_0(kLargestFloat),
            .condition = kOfOneCycle},
           {.name = "--lr-final-div-factor",
            .target = to([](Options & o) -> auto& { return o.train.schedule.final_div_factor; }),
            .on_resume = Effect::results,
            .help = "the first rate divided by the last one",
            .check = above_0(kLargestFloat),
            .condition = kOfOneCycle},
           {.name = "--lr-anneal",
            .target = one_of<ScheduleDesc::Anneal>(
                {{"cos", ScheduleDesc::Anneal::cosine}, {"linear", ScheduleDesc::Anneal::linear}},
                [](Options & o) -> auto& { return o.train.schedule.anneal; }),
            .on_resume = Effect::results,
            .help = "the rate moves on half a cosine, or on a line",
            .condition = kOfOneCycle},
           {.name = "--lr-plateau-metric",
            .target = one_of<PlateauDesc::Metric>(
                {{"loss", PlateauDesc::Metric::loss}, {"acc", PlateauDesc::Metric::accuracy}},
                [](Options & o) -> auto& { return o.train.schedule.plateau.metric; }),
            .on_resume = OnResume::fixed("the best figure so far is of this metric"),
            .help = "figure of the evaluations that must get better, with --model-ema too that of the weights",
            .condition = kOfPlateau},
           {.name = "--lr-plateau-patience",
            .target = to([](Options & o) -> auto& { return o.train.schedule.plateau.patience; }),
            .on_resume = Effect::results,
            .help = "evaluations in a row that may be no better; the next one reduces the rate by --lr-gamma",
            .check = CLI::NonNegativeNumber,
            .condition = kOfPlateau},
           {.name = "--lr-plateau-threshold",
            .target = to([](Options & o) -> auto& { return o.train.schedule.plateau.threshold; }),
            .on_resume = Effect::results,
            .help = "share of the best figure by which a better one differs at least",
            .check = number(0, 1),
            .condition = kOfPlateau},
           {.name = "--lr-plateau-cooldown",
            .target = to([](Options & o) -> auto& { return o.train.schedule.plateau.cooldown; }),
            .on_resume = Effect::results,
            .help = "evaluations after a reduction that do not count",
            .check = CLI::NonNegativeNumber,
            .condition = kOfPlateau},
           {.name = "--lr-warmup-epochs",
            .target = to([](Options & o) -> auto& { return o.train.schedule.warm_up_epochs; }),
            .on_resume = Effect::results,
            .help = "epochs of warm-up; fractions are allowed",
            .check = number(0, kLargestFloat),
            .conflict = [](const Options& o) -> std::string {
              const ScheduleDesc& s = o.train.schedule;
              if (warms_up(o) && in_one_cycle(o)) return "excludes --lr-scheduler onecycle, which begins low itself";
              return !warms_up(o) || s.warm_up_epochs < s.total_epochs
                         ? ""
                         : fmt::format("must be below --epochs, which is {}", o.train.epochs);
            }},
           {.name = "--lr-warmup-method",
            .target = one_of<ScheduleDesc::WarmUp>(
                {{"linear", ScheduleDesc::WarmUp::linear}, {"constant", ScheduleDesc::WarmUp::constant}},
                [](Options & o) -> auto& { return o.train.schedule.warm_up; }),
            .on_resume = Effect::results,
            .help = "the rate rises linearly during the warm-up, or stays constant until its end",
            .condition = {"needs --lr-warmup-epochs above 0", warms_up}},
           {.name = "--lr-warmup-decay",
            .target = to([](Options & o) -> auto& { return o.train.schedule.warm_up_factor; }),
            .on_resume = Effect::results,
            .help = "factor of the rate at the start of the warm-up",
            .check = number(0, 1),
            .condition = {"needs --lr-warmup-epochs above 0", warms_up}}}};
}

void complete_schedule(Options& o) {
  ScheduleDesc& schedule = o.train.schedule;
  schedule.total_epochs = static_cast<double>(o.train.epochs);
  o.head.rate = group_rate(o.head, schedule.lr);
  for (ParameterGroup& group : o.replica.groups) {
    group.rate = group_rate(group, schedule.lr);
    o.replica.optimizer.group_momentum |= group.momentum > 0.0;
  }
  schedule.batch_size = o.batch.size;
  schedule.lr = scaled_lr(schedule.lr, o.lr_scaling.kind, o.batch.size, o.lr_scaling.base_batch);
}

}  // namespace ddp
