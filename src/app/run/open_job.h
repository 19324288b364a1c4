// Stage 1 of a run: the watchdog, the communicator of all ranks, the data and the network.
//
// The order of the members is load-bearing, because they are destroyed in reverse order. The watchdog is destroyed
// last: it also ends a job that hangs while the other members are destroyed. All are destroyed before main() ends MPI.
#pragma once

#include "app/inputs/load_data.h"
#include "app/options/options.h"
#include "comm/communicator.h"
#include "comm/mpi/session.h"
#include "core/log.h"
#include "health/phase_tracker.h"
#include "health/watchdog.h"
#include "nn/network.h"
#include "train/fault_injection.h"
#include "train/trainer.h"

#include <memory>
#include <optional>
#include <vector>

namespace ddp {

struct ResumePoint;

struct Job {
  Options options;  // --batch-size max is settled in stage 2
  MpiSession& session;
  PhaseTracker& phases;
  const Log& log;

  std::unique_ptr<Watchdog> watchdog;
  std::unique_ptr<Communicator> world;  // of host memory, over all ranks
  std::optional<FaultInjection> injection;
  LoadedData data;
  std::vector<float> class_weights;  // in the loss of the training, by label; empty: none
  Network network;
  std::optional<Network> validation_network;  // for validation images of another size; none: `network`
  Samplers samplers;                          // of this rank
};

// Its text ends the job. `session` and `phases` outlive the watchdog.
std::unique_ptr<Watchdog> start_watchdog(std::optional<double> step_timeout, MpiSession& session, PhaseTracker& phases);

// Reads the network of --model, unless `given` has it. The arguments but `given` outlive the job. Collective. The ranks
// compare their configurations first: a rank with other options may make other collectives. Throws CollectiveError:
// Exit::communication if configurations or data sets differ, Exit::usage, Exit::data or Exit::model on a wrong option,
// wrong data or a network that does not fit them. `resume_point`: a resumed run excludes the same pictures.
Job open_job(const Options& given, const ResumePoint& resume_point, MpiSession& session, PhaseTracker& phases,
             const Log& log);

}  // namespace ddp
