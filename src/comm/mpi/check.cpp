#include "comm/mpi/check.h"

#include "core/error.h"
#include "core/stopwatch.h"

#include <sched.h>

#include <chrono>
#include <thread>

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

// A request that takes longer than a message needs waits for a rank that computes, perhaps on this core: then sleep.
void complete(MPI_Request& request) {
  constexpr double kMessage = 1e-3;  // time of a message in s
  const Stopwatch waiting;
  for (int done = 0;;) {
    DDP_MPI(MPI_Test(&request, &done, MPI_STATUS_IGNORE));
    if (done) return;
    if (waiting.seconds() < kMessage)
      sched_yield();
    else
      std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
}

}  // namespace ddp
