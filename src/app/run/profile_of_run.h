// The profile of a run, which ddp_train plan reads.
#pragma once

#include "app/run/open_job.h"
#include "app/run/plan_run.h"
#include "ddp/run_profile.h"
#include "train/trainer.h"

#include <optional>
#include <span>
#include <string>

namespace ddp {

// After the training. None on ranks other than 0, and where this process has no full step after the first two. Where
// the costs were not measured before the training, one more pass measures them; an all-reduce then costs its share of
// the time that all buckets took alone. `hosts`: the host of each rank, on rank 0. Collective.
std::optional<RunProfile> profile_of_run(const Job& job, const PlannedRun& run, const TrainReport& report,
                                         std::span<const std::string> hosts);

}  // namespace ddp
