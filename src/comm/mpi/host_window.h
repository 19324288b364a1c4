// The window of each host for a communicator over MPI, and the lanes between the hosts.
#pragma once

#include "comm/mpi/session.h"
#include "comm/shm/window_collective.h"

#include <mpi.h>

#include <memory>
#include <string>

namespace ddp {

struct HostWindow {
  // Collective over `comm`, which must outlive the result. `host` is equal on all ranks of a host, and different on
  // other hosts. Allreduce::ring and Allreduce::mpi treat each rank as a separate host. The others do so too if a rank
  // cannot map the memory of its host.
  HostWindow(MPI_Comm comm, Allreduce allreduce, int host);
  std::unique_ptr<WindowCollective> collective(int slot) const;

  std::string description() const;     // as Communicator::description()
  std::string order_of_terms() const;  // as Communicator::order_of_terms()

  WindowConfig config;
  std::shared_ptr<Window> window;
  MPI_Comm lane = MPI_COMM_NULL;  // null on one host, or without a lane; the owner of the queue frees it

 private:
  Allreduce allreduce_;
  bool cannot_map_ = false;  // a rank cannot map the memory of another rank of its host
};

}  // namespace ddp
