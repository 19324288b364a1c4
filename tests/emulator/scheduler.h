// Runs tasks in the order of their dependencies, and otherwise in an order picked by the seed.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

namespace emulator {

// The work of one host thread's streams. A thread that waits runs the tasks of its own domain first.
struct Domain;
using DomainPtr = std::shared_ptr<Domain>;

struct Work {
  std::function<void()> run;  // empty: only a point in the order
  bool may_block = false;     // it may wait for other threads, so it gets one of its own
};

struct Task {
  Task(DomainPtr domain_, Work work_, uint64_t urgency_)
      : domain(std::move(domain_)), work(std::move(work_)), urgency(urgency_) {}

  DomainPtr domain;
  Work work;
  uint64_t urgency;  // of ready tasks the most urgent runs, mostly
  int missing = 0;   // dependencies that are not done
  std::vector<std::shared_ptr<Task>> next;
  bool done = false;
};
using TaskPtr = std::shared_ptr<Task>;

// Its mutex guards the tasks and all of the streams', events' and captures' state; a task runs without it.
class Scheduler {
 public:
  using Lock = std::unique_lock<std::mutex>;

  static Lock lock();
  static void add(const TaskPtr& task, const std::vector<TaskPtr>& after);

  // Runs tasks until `task` is done; null is done.
  static void finish(Lock& lock, const TaskPtr& task);
  // Runs none, one or a few tasks of the domain, or of others where it has none that is ready.
  static void nudge(Lock& lock, const Domain* domain);
};

}  // namespace emulator
