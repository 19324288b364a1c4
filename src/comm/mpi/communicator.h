// A communicator over MPI: each rank is a process.
#pragma once

#include "comm/communicator.h"
#include "comm/mpi/progress_engine.h"
#include "comm/mpi/session.h"

#include <mpi.h>

#include <memory>

namespace ddp {

// Collective over `parent`. `host` is equal on all ranks of a host, and different on other hosts. The engine must
// outlive the result.
std::unique_ptr<Communicator> make_mpi_communicator(MPI_Comm parent, ProgressEngine& engine, Allreduce allreduce,
                                                    int host);

}  // namespace ddp
