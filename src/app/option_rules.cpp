#include "app/option_rules.h"

#include <algorithm>
#include <cmath>

namespace ddp {
namespace {

using Optimizer = OptimizerDesc::Kind;
using Schedule = ScheduleDesc::Kind;

struct Condition {
  const char* option;
  const char* otherwise;
  bool (*applies)(const Options&);
};

bool is_adam(const Options& o) { return o.optimizer.kind == Optimizer::adam; }
bool is_sgd(const Options& o) { return o.optimizer.kind == Optimizer::sgd; }
bool is_lars(const Options& o) { return o.optimizer.kind == Optimizer::lars; }
bool decays(const Options& o) { return o.optimizer.weight_decay > 0; }
bool warms_up(const Options& o) { return o.schedule.warm_up_epochs > 0; }
bool in_steps(const Options& o) { return o.schedule.kind == Schedule::step; }
bool at_milestones(const Options& o) { return o.schedule.kind == Schedule::multi_step; }
bool has_end(const Options& o) { return o.schedule.kind == Schedule::cosine || o.schedule.kind == Schedule::linear; }

const Condition kConditions[] = {
    {"--bn-stats", "is for evaluations: needs an --eval-every above 0",
     [](const Options& o) { return o.eval_every > 0; }},
    {"--init", "excludes --init-from", [](const Options& o) { return o.init_from.empty(); }},
    {"--json", "needs --doctor", [](const Options& o) { return o.doctor; }},
    {"--keep-best", "needs an --eval-every above 0", [](const Options& o) { return o.eval_every > 0; }},
    {"--momentum", "needs --optimizer sgd or lars", [](const Options& o) { return !is_adam(o); }},
    {"--nesterov", "needs --optimizer sgd and a --momentum above 0",
     [](const Options& o) { return is_sgd(o) && o.optimizer.momentum > 0; }},
    {"--decay", "needs --optimizer sgd and a --weight-decay above 0",
     [](const Options& o) { return is_sgd(o) && decays(o); }},
    {"--no-decay-bias-norm", "needs a --weight-decay above 0, or --optimizer lars",
     [](const Options& o) { return decays(o) || is_lars(o); }},
    {"--adam-beta1", "needs --optimizer adam or adamw", is_adam},
    {"--adam-beta2", "needs --optimizer adam or adamw", is_adam},
    {"--adam-epsilon", "needs --optimizer adam or adamw", is_adam},
    {"--lars-trust", "needs --optimizer lars", is_lars},
    {"--plan", "excludes --doctor", [](const Options& o) { return !o.doctor; }},
    {"--print-order", "excludes --doctor", [](const Options& o) { return !o.doctor; }},
    {"--lr-base-batch", "needs --lr-scale linear or sqrt",
     [](const Options& o) { return o.lr_scale != RateScale::none; }},
    {"--lr-step-size", "needs --lr-scheduler step", in_steps},
    {"--lr-milestones", "needs --lr-scheduler multistep", at_milestones},
    {"--lr-gamma", "needs --lr-scheduler step or multistep",
     [](const Options& o) { return in_steps(o) || at_milestones(o); }},
    {"--lr-min", "needs --lr-scheduler cosine or linear", has_end},
    {"--lr-warmup-method", "needs a --lr-warmup-epochs above 0", warms_up},
    {"--lr-warmup-decay", "needs a --lr-warmup-epochs above 0", warms_up},
};

void require_schedule(const Options& o) {
  const ScheduleDesc& s = o.schedule;
  require(std::isfinite(static_cast<float>(s.lr)), Exit::usage,
          "--lr times what --lr-scale makes of it must be finite");
  require(!at_milestones(o) || !s.milestones.empty(), Exit::usage,
          "--lr-scheduler multistep needs --lr-milestones, such as 30,60");
  require(std::is_sorted(s.milestones.begin(), s.milestones.end()), Exit::usage, "--lr-milestones must ascend");
  require(s.warm_up_epochs < s.total_epochs || !warms_up(o), Exit::usage,
          "--lr-warmup-epochs must be below --epochs, which is {}", o.epochs);
  require(!has_end(o) || s.min_lr <= s.lr, Exit::usage, "--lr-min must be at most the rate, which is {:g}", s.lr);
}

}  // namespace

bool option_applies(const Options& options, const std::string& name) {
  return std::all_of(std::begin(kConditions), std::end(kConditions), [&](const Condition& condition) {
    return name != condition.option || condition.applies(options);
  });
}

void require_options_fit(const Options& o, const std::function<bool(const std::string& name)>& given) {
  for (const Condition& condition : kConditions)
    require(condition.applies(o) || !given(condition.option), Exit::usage, "{} {}", condition.option,
            condition.otherwise);
  require_schedule(o);
  require(o.accumulate <= o.batch_size, Exit::usage, "--accumulate must be at most --batch-size, which is {}",
          o.batch_size);
  require(o.resume != "auto" || !o.output_dir.empty(), Exit::usage,
          "--resume auto needs --output-dir: the folder of the run, which may be new");
  require(o.resume.empty() || o.resume == "auto" || o.init_from.empty(), Exit::usage,
          "--resume {} excludes --init-from: a run that goes on has its weights; --resume auto may begin with some",
          o.resume);
  require(o.zero == 0 || !is_lars(o), Exit::usage,
          "--zero 1 does not go with --optimizer lars, which needs whole tensors on each rank");
}

}  // namespace ddp
