// Makes the reporter of a run: an observer for each option of output.
#pragma once

#include "app/run/open_job.h"
#include "app/run/plan_run.h"
#include "app/run/restore_run.h"
#include "train/observers/reporter.h"

#include <memory>
#include <span>
#include <string>

namespace ddp {

// Rank 0's reporter prints, and writes metrics.jsonl and the files of other options into the run's folder; the others'
// have no observer. --progress auto shows a bar where the output goes to a terminal that can draw, --progress bar also
// where a launcher hides it. `hosts`: the host of each rank. The arguments outlive the reporter. Collective. Throws
// CollectiveError(Exit::output) where a file cannot be created.
std::unique_ptr<Reporter> make_reporter(const Job& job, const PlannedRun& run, const RestoredRun& start,
                                        std::span<const std::string> hosts);

}  // namespace ddp
