// The MPI session of a test program under mpirun. tests/mpi_main.cpp is its main().
#pragma once

#include "comm/mpi/session.h"

namespace ddp {

MpiSession& session();  // from the start of main() to its end

}  // namespace ddp
