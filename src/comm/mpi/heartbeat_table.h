// The heartbeat table for ranks that are processes.
#pragma once

#include "comm/heartbeat/heartbeat_table.h"
#include "comm/mpi/progress_engine.h"

#include <mpi.h>

#include <memory>
#include <string>

namespace ddp {

// Collective over `world`. Ranks with the same colour are on one host and share memory. The engine must outlive the
// result. The destructor calls leave() and waits up to two seconds for the last messages of other hosts.
std::unique_ptr<HeartbeatTable> make_mpi_heartbeat_table(MPI_Comm world, int host_colour, const std::string& host_name,
                                                         ProgressEngine& engine);

}  // namespace ddp
