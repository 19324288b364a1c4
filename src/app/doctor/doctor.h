// ddp_train --doctor: looks at the machine under the launcher and with the options of a run, and says what is wrong and
// which line mends it; and the part of that which every start can afford.
#pragma once

#include "app/doctor/time_limit.h"
#include "app/options.h"
#include "comm/mpi/session.h"
#include "core/error.h"
#include "core/log.h"

#include <memory>

namespace ddp::doctor {

// Rank 0 prints. Every check has a limit of its own, --step-timeout if that is given; one that hangs is named, with the
// rank to blame where that is known, and the job ended. Returns the code of the first fault, Exit::done without one.
// Collective. `limit_of_start` ends when the first check begins.
Exit run_doctor(const Options& options, MpiSession& session, std::unique_ptr<TimeLimit> startup_limit);

// Warns of what is wrong with cores, shared memory, interfaces and NCCL's variables. Takes milliseconds, writes
// nothing. Collective.
void preflight(const Options& options, MpiSession& session, bool on_gpus, const Log& log);

}  // namespace ddp::doctor
