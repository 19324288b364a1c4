// Advances the collectives of all queues of this process and never blocks in MPI. The computing thread polls
// progress(). When it computes for milliseconds without a poll, a fallback thread polls instead. No thread spins on a
// core that computes: the fallback thread naps between its polls, while the buffers of the kernel keep the links busy.
// After an error in the fallback thread, the next start(), progress() or wait() throws it.
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

// A task that the engine runs at least four times a second, also while no collective is outstanding.
class PeriodicTask {
 public:
  virtual ~PeriodicTask() = default;
  virtual void run(int64_t now_ns) noexcept = 0;  // must return at once; now_ns: time of the steady clock
};

class ProgressEngine {
 public:
  ProgressEngine();
  ~ProgressEngine();
  ProgressEngine(const ProgressEngine&) = delete;
  ProgressEngine& operator=(const ProgressEngine&) = delete;

  void attach(CollectiveQueue& queue);
  void detach(CollectiveQueue& queue) noexcept;
  void attach(PeriodicTask& task);  // at most one task
  void detach(PeriodicTask& task) noexcept;

  Communicator::Sequence start(CollectiveQueue& queue, const Collective& collective);
  void progress();
  void wait(CollectiveQueue& queue, Communicator::Sequence n);  // yields the core between polls, or sleeps: PollPause

  // Returns work() while no thread advances a queue.
  template <class Work>
  auto locked(Work work) {
    const std::lock_guard lock(mutex_);
    return work();
  }

  // Whether a queue was detached with collectives outstanding. Then do not finalise MPI.
  bool abandoned() const { return abandoned_; }

 private:
  bool advance();            // needs the mutex; true if a collective has moved
  int advance_until_dry();   // needs the mutex; returns how often something has moved
  void run_task() noexcept;  // needs the mutex
  void fallback_poll_loop();

  std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<CollectiveQueue*> queues_;
  PeriodicTask* task_ = nullptr;
  int64_t task_due_ns_ = 0;
  std::exception_ptr failure_;
  bool stop_ = false, abandoned_ = false;
  bool asleep_ = false;                    // the fallback thread sleeps until start() wakes it
  std::atomic<bool> busy_ = false;         // a collective is outstanding
  std::atomic<int64_t> last_poll_ns_ = 0;  // time of the computing thread's last poll
  bool waits_long_ = false;                // whether the last wait() was long; wait() alone uses it
  int64_t poll_spacing_ns_ = 0;            // the least time between two polls of progress(), which alone uses it
  std::thread thread_;
};

}  // namespace ddp
