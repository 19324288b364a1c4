// Runs tasks in the order of their dependencies. The seed decides the order of independent tasks.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

namespace emulator {

// The streams of one host thread. A thread that waits runs the tasks of its own domain first.
struct Domain;
using DomainPtr = std::shared_ptr<Domain>;

struct Work {
  std::function<void()> run;  // empty: the task only orders other tasks
  bool may_block = false;     // may wait for other threads, so it runs on its own worker thread
};

struct Task {
  Task(DomainPtr domain_, Work work_, uint64_t urgency_)
      : domain(std::move(domain_)), work(std::move(work_)), urgency(urgency_) {}

  DomainPtr domain;
  Work work;
  uint64_t urgency;  // the most urgent ready task runs first in most cases
  int missing = 0;   // pending dependencies
  std::vector<std::shared_ptr<Task>> next;
  bool done = false;
};
using TaskPtr = std::shared_ptr<Task>;

// The scheduler's mutex guards all tasks, streams, events and captures. A task runs without the lock.
class Scheduler {
 public:
  using Lock = std::unique_lock<std::mutex>;

  static Lock lock();
  static void add(const TaskPtr& task, const std::vector<TaskPtr>& after);

  // Runs tasks until `task` is done. Returns at once if `task` is null.
  static void finish(Lock& lock, const TaskPtr& task);
  // Runs 0 to 3 ready tasks, of the domain or else of other domains.
  static void nudge(Lock& lock, const Domain* domain);
};

}  // namespace emulator
