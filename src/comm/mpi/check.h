// DDP_MPI(call) checks the return code of an MPI call. Throws Error(Exit::communication) with the call, its file and
// line, the rank, MPI's text and what to do.
#pragma once

#include <mpi.h>

namespace ddp {

void check_mpi(int code, const char* expression, const char* file, int line);

// Blocks until the request is complete. Yields the core between polls, and sleeps between them after 1 ms (PollPause).
void complete(MPI_Request& request);

}  // namespace ddp

#define DDP_MPI(call) ::ddp::check_mpi((call), #call, __FILE__, __LINE__)
