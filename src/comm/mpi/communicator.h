// Ranks as processes, over MPI.
#pragma once

#include "comm/communicator.h"
#include "comm/mpi/progress_engine.h"
#include "comm/mpi/session.h"

#include <mpi.h>

#include <memory>

namespace ddp {

// Collective over `parent`; the engine outlives the result.
std::unique_ptr<Communicator> make_mpi_communicator(MPI_Comm parent, ProgressEngine& engine, Allreduce allreduce);

}  // namespace ddp
