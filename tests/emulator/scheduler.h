// Runs tasks in the order of their dependencies. The seed decides the order of independent tasks. Threads may take
// turns; then the seed decides which thread runs next.
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
  std::function<void()> run;    // empty: the task only orders other tasks
  std::function<bool()> ready;  // empty: at once. The task runs when it is true; it must stay true
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
  // Waits until done() is true. Runs the tasks of the domain, if it is not null, and those of other domains if all
  // threads wait for them.
  static void wait(Lock& lock, const Domain* domain, const std::function<bool()>& done);
  // Lets another thread go on.
  static void pass_turn(Lock& lock);
  // Runs 0 to 3 ready tasks, of the domain or else of other domains, and passes the turn.
  static void nudge(Lock& lock, const Domain* domain);
};

}  // namespace emulator
