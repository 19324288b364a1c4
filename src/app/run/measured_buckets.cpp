#include "app/run/measured_buckets.h"

#include "app/options/resume.h"
#include "app/run/kept_buckets.h"
#include "comm/broadcast_host.h"
#include "ddp/fastest_buckets.h"
#include "health/abort.h"
#include "train/observers/measure_costs.h"
#include "train/observers/try_buckets.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace ddp {
namespace {

bool are_measured(const Options& options, int world) {
  return world > 1 && !options.bucket_cap_mb && !options.first_bucket_mb && !options.device.deterministic;
}

// Whether a checkpoint has buckets that are those of its plan, and only the buckets differ in what changes rounding.
bool has_kept_buckets(const RunState& saved, const RunState& now, const Replica& replica) {
  constexpr const char* kPlan = "bucket plan";
  const auto text = saved.autotune.find(kBucketsEntry);
  const auto plan = saved.affects_rounding.find(kPlan);
  if (text == saved.autotune.end() || plan == saved.affects_rounding.end()) return false;
  RunState others = now;
  others.affects_rounding[kPlan] = plan->second;
  if (!rounding_differences(saved, others).empty()) return false;
  const BucketPlan& built = replica.plan;
  const auto kept = kept_buckets_from(text->second, std::ssize(built.parameter_counts));
  if (!kept) return false;
  const BucketPlan cut =
      plan_buckets_at(built.parameter_counts, replica.communicator.size(), built.trailer(), kept->begins);
  return fmt::format("{:016x}", cut.hash()) == plan->second;
}

// What the model of the costs finds, then the constant sizes that others use.
std::vector<BucketBegins> plans_to_try(const Replica& replica, const StepCosts& costs) {
  const BucketPlan& built = replica.plan;
  const bool rides = replica.reducer.trailer_in_last_bucket();
  std::vector<BucketBegins> plans;
  const auto add = [&](BucketBegins begins) {
    if (std::ranges::find(plans, begins) == plans.end()) plans.push_back(std::move(begins));
  };
  add(robust_buckets(built, costs, rides));
  add(built.begins());
  add(fastest_buckets(built, costs, rides));
  for (const double cap : {25.0, 4.0, 1.0})
    add(plan_buckets(built.parameter_counts, replica.communicator.size(), built.trailer(), {.cap_mb = cap}).begins());
  return plans;
}

}  // namespace

std::optional<StepCosts> set_measured_buckets(const Job& job, const ResumePoint& resume_point, const RunState& now,
                                              Replica& replica) {
  if (!are_measured(job.options, job.session.size())) return std::nullopt;
  // Rank 0 decides: other ranks may have other processors, and so other settings.
  std::string text;
  if (job.session.rank() == 0 && has_kept_buckets(resume_point.state, now, replica))
    text = resume_point.state.autotune.at(kBucketsEntry);
  broadcast_host(*job.world, text);
  auto kept = kept_buckets_from(text, std::ssize(replica.plan.parameter_counts));
  return abort_on_error(job.session, [&] {
    if (!kept) {
      const StepCosts costs = measure_costs(replica, *job.data.data.train, job.samplers.train);
      const auto& data = *job.data.data.train;
      kept = {fastest_in_trials(replica, data, job.samplers.train, plans_to_try(replica, costs)), costs};
    } else {
      replica.set_buckets(kept->begins);
    }
    return std::optional(kept->costs);
  });
}

}  // namespace ddp
