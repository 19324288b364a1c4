// Whole passes with the collectives of several bucket plans, between steps: what no model of the costs knows, such as
// the processor time that communication takes from computing, is in them.
#pragma once

#include "data/dataset.h"
#include "data/sampler.h"
#include "ddp/bucket_plan.h"
#include "train/step/replica.h"

#include <vector>

namespace ddp {

using BucketBegins = std::vector<ParameterId>;

// The first plan, unless the median pass of another takes less than 1 - kTrialTolerance of its time; then the plan with
// the least. Each plan has up to five passes in turn, in `limit_ms` if the pass before them, which does not count, is
// like them; without time for one pass of each, the first plan. Where steps replay graphs, which hide launches, the
// first plan. On a batch as measure_costs()' one; leaves the training's state unchanged but for the buckets, which are
// those of the result. Collective; equal on all ranks.
inline constexpr double kTrialTolerance = 0.02, kTrialsMs = 4000;
BucketBegins fastest_in_trials(Replica& replica, const Dataset& data, const DistributedSampler& sampler,
                               const std::vector<BucketBegins>& plans, double limit_ms = kTrialsMs);

// The place of the plan to take, by the times in ms of the passes of each; all have as many, one at least.
size_t fastest_trial(const std::vector<std::vector<double>>& times);

}  // namespace ddp
