// The program between the start and the end of MPI.
#pragma once

#include "comm/mpi/session.h"

namespace ddp {

// Errors that every rank has at the same point are thrown as SharedError, any other as Error.
void run(MpiSession& session, int argc, char** argv);

}  // namespace ddp
