// The life of MPI in this process: constructed first in main, destroyed last. Construction grants THREAD_MULTIPLE or
// throws Error(Exit::communication); it throws Error(Exit::world) where the launcher promised more ranks than there
// are, or gave them no way to find each other. Where mpirun's host is cut off meanwhile, it ends the process with a
// message (StartupWatchdog).
#pragma once

#include "comm/communicator.h"
#include "comm/heartbeat_table.h"
#include "core/error.h"

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace ddp {

enum class Allreduce { automatic, ring };  // MPI's choice, or our own segmented ring

class MpiSession {
 public:
  MpiSession(int& argc, char**& argv);
  ~MpiSession();  // finalises
  MpiSession(const MpiSession&) = delete;
  MpiSession& operator=(const MpiSession&) = delete;

  int rank() const;
  int size() const;
  int local_rank() const;  // among the ranks of this host
  int local_size() const;
  std::string host() const;

  // A communicator over all ranks; it must be destroyed before the session.
  std::unique_ptr<Communicator> world(Allreduce allreduce);

  // What all ranks are doing; it lives as long as the session.
  HeartbeatTable& heartbeats();

  // All ranks learn whether any of them failed: where one has, every rank gets the error of the lowest such rank,
  // marked with its number unless all ranks failed with the same text. Collective.
  std::optional<Error> agree(const std::optional<Error>& mine);

  // Every rank's text, by rank, on all of them. Collective.
  std::vector<std::string> gather(const std::string& mine);

  // Ends the job on all ranks at once with this exit code, and this process two seconds later whatever MPI does. May be
  // called from any thread.
  [[noreturn]] static void abort(Exit code);

  // The same for a rank that has said why: first it leaves the heartbeat table and calls `callback`, which has those
  // two seconds. Where a host is cut off, mpirun or its daemon on this host is ended with the job, as it would not end,
  // and this process some seconds later.
  [[noreturn]] void end(Exit code, const std::string& why);
  // Empty: nothing; returns when a call of an earlier one has ended.
  void on_abort(std::function<void(const std::string& why)> callback);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ddp
