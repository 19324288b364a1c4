// The bucket plan of a run on several ranks: by measurement, unless options give its sizes. It is kept in the run's
// checkpoints, because other buckets round differently.
#pragma once

#include "app/run/open_job.h"
#include "app/run/resume_point.h"
#include "checkpoint/run_state.h"
#include "ddp/step_costs.h"
#include "train/step/replica.h"

#include <optional>

namespace ddp {

// Gives the replica buckets that are fast in trials (train/observers/try_buckets.h), of which the robust_buckets() of
// its costs come first, and returns these costs; nothing where the buckets have constant sizes. `now`:
// run_fingerprint() of the replica as it was built. A resumed run takes the buckets of its checkpoint, if on rank 0
// nothing but the buckets changes its rounding. Collective; equal on all ranks.
std::optional<StepCosts> set_measured_buckets(const Job& job, const ResumePoint& resume_point, const RunState& now,
                                              Replica& replica);

}  // namespace ddp
