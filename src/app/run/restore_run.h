// Stage 3 of a run: the weights and the state at its first step, and the folder of its results.
//
// The order is load-bearing. The weights come before the folder: a run that refuses its checkpoint leaves no folder.
// The folder is opened before anything is written, and it takes over the lock of the resume point.
#pragma once

#include "app/run/open_job.h"
#include "app/run/output_folder.h"
#include "app/run/plan_run.h"
#include "train/trainer.h"

#include <string>

namespace ddp {

struct RestoredRun {
  TrainConfig config;   // with the state at the start; without `stop_requested`
  OutputFolder folder;  // rank 0; keeps the lock of the folder
  std::string path;     // of the folder, the same on all ranks
  double data_seconds = 0, plan_seconds = 0, restore_seconds = 0;  // that the three stages took on this rank
};

// Loads the checkpoint or the initial weights into the replica. `job` and `run` outlive the result. Collective. Throws
// CollectiveError: Exit::usage, Exit::data, Exit::model, Exit::output, or Exit::communication if replicas differ.
RestoredRun restore_run(const Job& job, PlannedRun& run);

}  // namespace ddp
