// The program between MPI's initialisation and its end.
#pragma once

#include "app/commands/doctor/time_limit.h"
#include "comm/mpi/session.h"
#include "core/error.h"
#include "health/signals.h"

#include <memory>

namespace ddp {

// Returns Exit::done, Exit::stopped after a stop on request with a saved checkpoint, or the doctor's exit code. Throws
// CollectiveError where all ranks have the same error at the same point, else Error. `startup_limit`: the doctor's
// limit of MPI's start, which ends when its first check begins; null without --doctor.
Exit run(MpiSession& session, Signals& signals, int argc, char** argv,
         std::unique_ptr<doctor::TimeLimit> startup_limit);

}  // namespace ddp
