// Stage 4 of a run: training, then the results.
//
// The order is load-bearing. Monitoring ends before the results: they make other collectives than a step. A finished
// run closes metrics.jsonl after its results are on the disk. The writer is destroyed before the reporter, and waits
// for its thread, which reads the replica's tensors and writes to the folder.
#pragma once

#include "app/run/open_job.h"
#include "app/run/plan_run.h"
#include "app/run/restore_run.h"
#include "core/error.h"
#include "health/flight_recorder.h"
#include "health/signals.h"

namespace ddp {

// Sets `start.config.stop_requested`. Returns Exit::done, or Exit::stopped after a stop on request. Collective. Throws
// CollectiveError(Exit::output) if metrics.jsonl cannot be created, or if a requested stop could not be saved. Any
// other error of one rank, such as results that cannot be written, aborts the job; in a world of one rank it is thrown.
Exit train_run(const Job& job, const PlannedRun& run, RestoredRun& start, Signals& signals,
               FlightRecorder& flight_recorder);

}  // namespace ddp
