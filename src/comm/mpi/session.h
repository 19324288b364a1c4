// The lifetime of MPI in this process: main constructs the session first and destroys it last. The constructor throws
// Error(Exit::communication) if MPI does not provide MPI_THREAD_MULTIPLE, and Error(Exit::world) if the launcher
// promised more ranks than the MPI world has, or gave the ranks no PMI, and Error(Exit::device) if the process may open
// too few files. If mpirun's host is cut off while MPI starts,
// the process ends with a message (StartupWatchdog).
#pragma once

#include "comm/communicator.h"
#include "comm/heartbeat/heartbeat_table.h"
#include "core/error.h"

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddp {

// automatic, shm: shared memory on a host, and a ring between hosts; ring: a ring through all ranks; mpi:
// MPI_Iallreduce.
enum class Allreduce { automatic, shm, ring, mpi };

std::string describe_mpi();  // such as "Open MPI v4.1.4"

class MpiSession {
 public:
  MpiSession(int& argc, char**& argv);
  ~MpiSession();  // finalises MPI, unless an error left collectives outstanding
  MpiSession(const MpiSession&) = delete;
  MpiSession& operator=(const MpiSession&) = delete;

  int rank() const;
  int size() const;
  int local_rank() const;  // rank among the ranks of this host
  int local_size() const;
  std::string host() const;

  // A communicator over all ranks. Collective. Destroy the communicator before the session. `host` overrides the host
  // of this rank: ranks with equal numbers share memory.
  std::unique_ptr<Communicator> world(Allreduce allreduce, std::optional<int> host = std::nullopt);

  // The heartbeat table over all ranks; the session owns it.
  HeartbeatTable& heartbeats();

  // Agrees on an error: if any rank passes one, every rank gets the error of the lowest failed rank. The text starts
  // with "rank N: ", unless all ranks failed with the same code and text. Collective.
  std::optional<Error> agree(const std::optional<Error>& mine);

  // The texts of all ranks, by rank, on every rank. Collective.
  std::vector<std::string> gather(const std::string& mine);

  // Ends the job on all ranks at once with this exit code. Ends this process after two seconds even if MPI hangs. Any
  // thread may call this.
  [[noreturn]] static void abort(Exit code);

  // Like abort(), for a rank that has printed its error `why`. First leaves the heartbeat table and calls the callback
  // of on_abort(), which must return within the two seconds. If a host is cut off, this also ends mpirun or its daemon
  // on this host, which would not end by itself; this process then ends some seconds later.
  [[noreturn]] void end(Exit code, std::string_view why);
  // Sets the callback of end(); an empty callback removes it. Waits until a running callback returns.
  void on_abort(std::function<void(std::string_view why)> callback);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ddp
