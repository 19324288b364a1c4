// The buckets whose last collective ends first: a pure function of the measured costs of a step.
//
// The model. The collectives run one after another in plan order. A collective begins when its gradients are ready and
// the one before it has ended, and takes link.latency_ms + its MiB * link.ms_per_mib, however busy the ranks are. The
// trailer is ready when the pass ends, at compute_ms: it rides in the last bucket, or has a collective of its own. Each
// bucket also costs bucket_ms. A tensor is not split over buckets: its whole gradient is ready at once, so that a cut
// would add a latency and bring nothing forward.
#pragma once

#include "ddp/bucket_plan.h"
#include "ddp/step_costs.h"

#include <span>
#include <vector>

namespace ddp {

// More buckets than this are not tried: the ranks keep the times of some hundred collectives
// (Communicator::kDoneTimes).
inline constexpr int kMostFastestBuckets = 64;

// When a collective runs, in ms from the start of the step's last micro-batch.
struct CollectiveTime {
  double ready = 0, begin = 0, end = 0;
};

// By collective, in plan order: the buckets, then the trailer if it has its own. `costs` has an entry for each
// parameter of the plan, and no cost is negative or not finite.
std::vector<CollectiveTime> predict_collectives(const BucketPlan& plan, const StepCosts& costs,
                                                bool trailer_in_last_bucket = true);

// The time in ms from the end of the pass to the end of the last collective.
double exposed_ms(const BucketPlan& plan, const StepCosts& costs, bool trailer_in_last_bucket = true);

// The parameters at which buckets begin, so that the end of the last collective and the buckets' bucket_ms together are
// least; of several such plans one with the fewest buckets. `sizes`: any plan of the parameters; its buckets do not
// count. O(kMostFastestBuckets * P^2) steps for P parameters.
std::vector<ParameterId> fastest_buckets(const BucketPlan& sizes, const StepCosts& costs,
                                         bool trailer_in_last_bucket = true);

// Those of `sizes`, unless others are faster by more than kRobustTolerance. Then nearly the fastest, with room for what
// differs while both run: a link that is kRobustLink times as slow beside computing, or a pass that takes kRobustPass
// times as long beside communication. Of the plans that are fastest for each number of buckets by the costs and in each
// of these two cases, those whose time is at most kRobustTolerance above the least by the costs; and of these the one
// whose worst ratio to the least time of a case is least.
inline constexpr double kRobustTolerance = 0.01, kRobustLink = 2, kRobustPass = 1.5;
std::vector<ParameterId> robust_buckets(const BucketPlan& sizes, const StepCosts& costs,
                                        bool trailer_in_last_bucket = true);

}  // namespace ddp
