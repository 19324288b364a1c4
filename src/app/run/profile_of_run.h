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

// After the training. None on ranks other than 0, and where this process has no full step after the first two with its
// last shards. Where the costs were not measured before the training, or for other shards, measure_costs() measures
// them with one pass; after a stop nothing is measured, and there is no profile. `hosts`: the host of each rank, on
// rank 0. Collective.
std::optional<RunProfile> profile_of_run(const Job& job, const PlannedRun& run, const TrainReport& report,
                                         std::span<const std::string> hosts);

}  // namespace ddp
