// Every return code of MPI is checked. The message has the call, its place, the rank, MPI's text and what to do.
#pragma once

#include <mpi.h>

namespace ddp {

void check_mpi(int code, const char* expression, const char* file, int line);

// Completes a request while leaving the core to whoever needs it, as ranks may share cores.
void complete(MPI_Request& request);

}  // namespace ddp

#define DDP_MPI(call) ::ddp::check_mpi((call), #call, __FILE__, __LINE__)
