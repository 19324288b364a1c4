// A queue of the collectives of one MPI communicator. They launch and complete in the order of push(). Not thread-safe.
#pragma once

#include "comm/collective.h"
#include "comm/mpi/host_window.h"
#include "comm/mpi/session.h"

#include <mpi.h>

#include <array>
#include <atomic>
#include <optional>
#include <vector>

namespace ddp {

class CollectiveQueue {
 public:
  // Collective over the parent; owns a duplicate of the parent. Frees the lane of `host`.
  CollectiveQueue(MPI_Comm parent, const HostWindow& host, Allreduce allreduce);
  ~CollectiveQueue();  // never waits; with collectives outstanding it leaks the memory that MPI still uses
  CollectiveQueue(const CollectiveQueue&) = delete;
  CollectiveQueue& operator=(const CollectiveQueue&) = delete;

  // Launches the collective at once if the window has room and no collective under way overlaps its span.
  Communicator::Sequence push(const Collective& next);
  // Tests the collectives under way, launches the next ones, returns at once. True if a collective has
  // moved.
  bool advance();

  bool asks_kernel() const { return allreduce_ == Allreduce::mpi || lane_ != MPI_COMM_NULL; }  // when it advances
  Communicator::Sequence issued() const { return issued_; }
  Communicator::Sequence completed() const { return completed_; }  // any thread may call this
  bool idle() const { return completed_ == issued_; }

  void record_done_times() { done_ns_.assign(Communicator::kDoneTimes, 0); }
  std::optional<int64_t> done_ns(Communicator::Sequence n) const;

 private:
  static constexpr int kWindow = Window::kSlots;  // largest number of collectives under way

  struct Slot {
    std::unique_ptr<WindowCollective> window;
    MPI_Request request = MPI_REQUEST_NULL;
    bool in_mpi = false, done = false;
  };
  void launch_eligible();
  void launch();
  bool advance(Slot& slot);  // true as above
  const Collective& collective(Communicator::Sequence n) const { return queue_[n % queue_.size()]; }
  Slot& slot_of(Communicator::Sequence n) { return slots_[n % kWindow]; }

  MPI_Comm comm_ = MPI_COMM_NULL, lane_;
  MPI_Op add_bf16_ = MPI_OP_NULL;
  Allreduce allreduce_;
  std::vector<Slot> slots_;
  std::vector<Collective> queue_;  // ring buffer: collective n is at index n mod size
  Communicator::Sequence issued_ = 0, launched_ = 0;
  std::atomic<Communicator::Sequence> completed_ = 0;
  std::vector<int64_t> done_ns_;  // ring buffer as `queue_`; 0: not recorded; empty: no times are recorded
};

}  // namespace ddp
