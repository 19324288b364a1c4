// The event of metrics.jsonl that says what a process of a run is: its program, its ranks, its model and its data.
#pragma once

#include "app/run/open_job.h"
#include "app/run/plan_run.h"
#include "app/run/restore_run.h"

#include <span>
#include <string>

namespace ddp {

// A line of JSON. Its "step" is the step after which this process goes on. `hosts`: the host of each rank.
std::string run_event(const Job& job, const PlannedRun& run, const RestoredRun& start,
                      std::span<const std::string> hosts);

}  // namespace ddp
