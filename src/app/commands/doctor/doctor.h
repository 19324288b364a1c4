// ddp_train --doctor: checks the machine under the launcher and with the options of a run, and prints each problem with
// a fix. preflight() is the fast part of it, which every start runs.
#pragma once

#include "app/commands/doctor/time_limit.h"
#include "app/options/options.h"
#include "comm/mpi/session.h"
#include "core/error.h"
#include "core/log.h"

#include <memory>

namespace ddp::doctor {

// Rank 0 prints the report. Each check has its own time limit, or --step-timeout if given. A check that hangs ends the
// job with its name and, if known, the rank to blame. Returns the exit code of the first fault, Exit::done without one.
// Destroys `startup_limit` when the first check begins. Collective.
Exit run_doctor(const Options& options, MpiSession& session, std::unique_ptr<TimeLimit> startup_limit);

// Logs a warning for each problem with cores, shared memory, named interfaces and NCCL's variables. Takes milliseconds
// and writes no file. Collective.
void preflight(const DeviceConfig& device, const TransportConfig& transport, MpiSession& session, bool on_gpus,
               const Log& log);

}  // namespace ddp::doctor
