#include "train/observers/try_buckets.h"

#include "core/error.h"
#include "train/observers/blank_batch.h"
#include "train/observers/speed_meter.h"

#include <algorithm>
#include <cmath>

namespace ddp {
namespace {

// Passes of a plan with its sums, and with sharded optimizer state the gather of the weights.
class Trials {
 public:
  Trials(Replica& replica, const Dataset& data, const DistributedSampler& sampler)
      : replica_(replica), kept_(replica.step_residual), blank_(replica, data, sampler) {
    if (!replica.sums_in_int8()) return;
    ones_.assign(replica.plan.padded, 1);  // zeros would take no time to round
    lost_.resize(replica.plan.padded);
    replica.step_residual = {ones_.data(), lost_.data()};
  }
  ~Trials() { replica_.step_residual = kept_; }
  Trials(const Trials&) = delete;
  Trials& operator=(const Trials&) = delete;

  double pass_ms(const BucketBegins& begins) {
    replica_.set_buckets(begins);
    replica_.zero_gradients();
    return slowest_ms(replica_, [&] {
      replica_.reducer.begin();
      replica_.model.forward_backward(blank_.batch, [&](ParameterId id) { replica_.reducer.ready(id); });
      replica_.reducer.finish();
      replica_.optimizer.gather_alone();
    });
  }

 private:
  Replica& replica_;
  const Residual kept_;
  const BlankBatch blank_;
  std::vector<float> ones_, lost_;
};

}  // namespace

size_t fastest_trial(const std::vector<std::vector<double>>& times) {
  size_t fastest = 0;
  for (size_t plan = 1; plan < times.size(); ++plan)
    if (median(times[plan]) < median(times[fastest])) fastest = plan;
  return median(times[fastest]) < (1 - kTrialTolerance) * median(times[0]) ? fastest : 0;
}

BucketBegins fastest_in_trials(Replica& replica, const Dataset& data, const DistributedSampler& sampler,
                               const std::vector<BucketBegins>& plans, double limit_ms) {
  DDP_EXPECT(!plans.empty());
  size_t fastest = 0;
  if (plans.size() > 1 && !replica.communicator.capturable()) {
    Trials trials(replica, data, sampler);
    const double each = trials.pass_ms(plans[0]) * static_cast<double>(plans.size());
    const auto turns = static_cast<int>(std::clamp(limit_ms / each, 0.0, 5.0));
    std::vector<std::vector<double>> times(plans.size());
    for (int turn = 0; turn < turns; ++turn)
      for (size_t plan = 0; plan < plans.size(); ++plan) times[plan].push_back(trials.pass_ms(plans[plan]));
    if (turns > 0) fastest = fastest_trial(times);
  }
  replica.set_buckets(plans[fastest]);
  return plans[fastest];
}

}  // namespace ddp
