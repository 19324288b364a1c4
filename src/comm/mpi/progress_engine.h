// Moves the collectives of all queues of this process forward, and never blocks in MPI. Whoever computes polls
// progress(); where it computes for long without polling, a thread that otherwise sleeps polls in its place, some
// milliseconds late where it has just seen others poll: looking more often would cost every other program of the
// machine its share of the cores (Linux 6.18). Nobody spins on a core that computes. An error met by that thread is
// thrown by the next call here.
#pragma once

#include "comm/mpi/collective_queue.h"

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace ddp {

// What the engine does besides, at least four times a second, whether or not anything is outstanding.
class PeriodicTask {
 public:
  virtual ~PeriodicTask() = default;
  virtual void run(int64_t now_ns) noexcept = 0;  // returns at once; of the steady clock
};

class ProgressEngine {
 public:
  ProgressEngine();
  ~ProgressEngine();
  ProgressEngine(const ProgressEngine&) = delete;
  ProgressEngine& operator=(const ProgressEngine&) = delete;

  void attach(CollectiveQueue& queue);
  void detach(CollectiveQueue& queue) noexcept;
  void attach(PeriodicTask& task);  // one at most
  void detach(PeriodicTask& task) noexcept;

  Communicator::Sequence start(CollectiveQueue& queue, const Collective& collective);
  void progress();
  void wait(CollectiveQueue& queue, Communicator::Sequence n);  // gives the core away between tests

  bool abandoned() const { return abandoned_; }  // a queue left with collectives outstanding: MPI cannot finalise

 private:
  void advance();  // with the mutex held, as the next
  void run_task() noexcept;
  void fallback_poll_loop();

  std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<CollectiveQueue*> queues_;
  PeriodicTask* task_ = nullptr;
  int64_t task_due_ns_ = 0;
  std::exception_ptr failure_;
  bool stop_ = false, abandoned_ = false;
  bool asleep_ = false;                    // the thread waits for a start
  std::atomic<bool> busy_ = false;         // something is outstanding
  std::atomic<int64_t> last_poll_ns_ = 0;  // by the computing thread
  std::thread thread_;
};

}  // namespace ddp
