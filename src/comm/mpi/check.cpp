#include "comm/mpi/check.h"

#include "comm/mpi/poll_pause.h"
#include "core/error.h"

namespace ddp {

void check_mpi(int code, const char* expression, const char* file, int line) {
  if (code == MPI_SUCCESS) [[likely]]
    return;
  char text[MPI_MAX_ERROR_STRING] = "unknown error";
  int length = 0, rank = -1;
  MPI_Error_string(code, text, &length);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  fail(
      Exit::communication,
      "rank {}: {} failed: {} ({}:{}). The transport to a peer is broken or a peer has ended: look for the first error "
      "of another rank, check the network between the hosts, then start the run again",
      rank, expression, text, file, line);
}

// A request that takes longer than a message needs waits for a rank that computes.
void complete(MPI_Request& request) {
  constexpr double kMessage = 1e-3;  // time of a message in s
  const PollPause pause(kMessage);
  for (int done = 0;; pause()) {
    DDP_MPI(MPI_Test(&request, &done, MPI_STATUS_IGNORE));
    if (done) return;
  }
}

}  // namespace ddp
