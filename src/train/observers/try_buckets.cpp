#include "train/observers/try_buckets.h"

#include "core/error.h"
#include "ddp/fastest_buckets.h"
#include "train/observers/blank_batch.h"
#include "train/observers/speed_meter.h"

#include <algorithm>
#include <cmath>

namespace ddp {
namespace {

// A pass with its sums, and with sharded optimizer state the gather of the weights.
double pass_ms(Replica& replica, const DeviceBatch& batch) {
  return slowest_ms(replica, [&] {
    replica.reducer.begin();
    replica.model.forward_backward(batch, [&](ParameterId id) { replica.reducer.ready(id); });
    replica.reducer.finish();
    replica.optimizer.gather_alone();
  });
}

// How long a pass with the slowest of the plans takes, by the model.
double predicted_ms(const BucketPlan& built, bool rides, const StepCosts& costs, const std::vector<BucketBegins>& plans,
                    int world) {
  double longest = 0;
  for (const BucketBegins& begins : plans) {
    const BucketPlan plan = plan_buckets_at(built.parameter_counts, world, built.trailer(), begins);
    longest = std::max(longest, predict_collectives(plan, costs, rides).back().end);
  }
  return longest;
}

}  // namespace

size_t fastest_trial(const std::vector<std::vector<double>>& times) {
  size_t fastest = 0;
  for (size_t plan = 1; plan < times.size(); ++plan)
    if (median(times[plan]) < median(times[fastest])) fastest = plan;
  return median(times[fastest]) < (1 - kTrialTolerance) * median(times[0]) ? fastest : 0;
}

BucketBegins fastest_in_trials(Replica& replica, const Dataset& data, const DistributedSampler& sampler,
                               const std::vector<BucketBegins>& plans, const StepCosts& costs) {
  DDP_EXPECT(!plans.empty());
  const double once =
      predicted_ms(replica.plan, replica.reducer.trailer_in_last_bucket(), costs, plans, replica.communicator.size());
  const double each = once * static_cast<double>(plans.size());
  const auto turns = static_cast<int>(std::clamp((kTrialsMs - once) / each, 0.0, 5.0));
  size_t fastest = 0;
  if (plans.size() > 1 && turns > 0) {
    const BlankBatch blank(replica, data, sampler);
    const KeptResidual kept(replica);
    std::vector<std::vector<double>> times(plans.size());
    replica.set_buckets(plans[0]);
    pass_ms(replica, blank.batch);  // the first pass of all is slower
    for (int turn = 0; turn < turns; ++turn)
      for (size_t plan = 0; plan < plans.size(); ++plan) {
        replica.set_buckets(plans[plan]);
        replica.zero_gradients();
        times[plan].push_back(pass_ms(replica, blank.batch));
      }
    fastest = fastest_trial(times);
  }
  replica.set_buckets(plans[fastest]);
  return plans[fastest];
}

}  // namespace ddp
