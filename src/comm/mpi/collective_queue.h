// The collectives of one MPI communicator: a queue, launched and completed in the order given. Not thread-safe.
#pragma once

#include "comm/collective.h"
#include "comm/mpi/ring.h"
#include "comm/mpi/session.h"

#include <mpi.h>

#include <array>
#include <atomic>
#include <vector>

namespace ddp {

class CollectiveQueue {
 public:
  CollectiveQueue(MPI_Comm parent, Allreduce allreduce);  // collective over the parent; owns a duplicate of it
  ~CollectiveQueue();  // with collectives outstanding it leaves MPI what it still uses, and does not wait
  CollectiveQueue(const CollectiveQueue&) = delete;
  CollectiveQueue& operator=(const CollectiveQueue&) = delete;

  // Launches it at once where the window has room.
  Communicator::Sequence push(const Collective& next);
  void advance();  // tests what is under way, launches what may follow, returns at once

  Communicator::Sequence issued() const { return issued_; }
  Communicator::Sequence completed() const { return completed_; }  // from any thread
  bool idle() const { return completed_ == issued_; }

 private:
  static constexpr int kWindow = 2;  // collectives under way at once

  struct Slot {
    Ring ring;
    MPI_Request request = MPI_REQUEST_NULL;
    bool in_ring = false, done = false;
  };
  void launch_eligible();
  void launch();
  bool advance(Slot& slot);
  const Collective& collective(Communicator::Sequence n) const { return queue_[n % queue_.size()]; }
  Slot& slot_of(Communicator::Sequence n) { return slots_[n % kWindow]; }

  MPI_Comm comm_ = MPI_COMM_NULL;
  MPI_Op add_bf16_ = MPI_OP_NULL;
  Allreduce allreduce_;
  std::vector<Slot> slots_;
  std::vector<Collective> queue_;  // a ring buffer: collective n at n modulo its size
  Communicator::Sequence issued_ = 0, launched_ = 0;
  std::atomic<Communicator::Sequence> completed_ = 0;
};

}  // namespace ddp
