// The program between the start and the end of MPI.
#pragma once

#include "app/doctor/time_limit.h"
#include "app/signals.h"
#include "comm/mpi/session.h"
#include "core/error.h"

#include <memory>

namespace ddp {

// Errors that every rank has at the same point are thrown as CollectiveError, any other as Error. Returns Exit::done,
// or Exit::stopped where the run has saved and ended because a signal asked for it. `limit_of_start`: the doctor's.
Exit run(MpiSession& session, Signals& signals, int argc, char** argv,
         std::unique_ptr<doctor::TimeLimit> startup_limit);

}  // namespace ddp
