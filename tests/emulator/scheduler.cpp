#include "scheduler.h"

#include "emulator/emulator.h"
#include "workers.h"

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <thread>

namespace emulator {
namespace {

struct State {
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<TaskPtr> ready;
  int running = 0;
};

// Never destroyed: at exit worker threads may still wait for tasks.
State& state() {
  static State& state = *new State;
  return state;
}

// Picks the most urgent ready task three times of four, else a random one. So one branch can run far ahead of another.
TaskPtr pick(const Domain* domain, bool foreign) {
  std::vector<size_t> choice;
  for (size_t i = 0; i < state().ready.size(); ++i)
    if ((state().ready[i]->domain.get() != domain) == foreign) choice.push_back(i);
  if (choice.empty()) return nullptr;
  size_t best = choice[draw() % choice.size()];
  if (draw() % 4 != 0)
    for (size_t i : choice)
      if (state().ready[i]->urgency > state().ready[best]->urgency) best = i;
  TaskPtr task = std::move(state().ready[best]);
  state().ready.erase(state().ready.begin() + static_cast<std::ptrdiff_t>(best));
  return task;
}

void complete(const TaskPtr& task) {
  task->done = true;
  --state().running;
  for (const TaskPtr& next : task->next)
    if (--next->missing == 0) state().ready.push_back(next);
  task->next.clear();
  state().changed.notify_all();
}

void run(Scheduler::Lock& lock, const TaskPtr& task) {
  ++state().running;
  if (!task->work.run) return complete(task);
  lock.unlock();
  if (task->work.may_block) {
    run_on_worker([task] {
      task->work.run();
      task->work.run = nullptr;
      const auto worker_lock = Scheduler::lock();
      complete(task);
    });
    lock.lock();
    return;
  }
  task->work.run();
  task->work.run = nullptr;
  lock.lock();
  complete(task);
}

}  // namespace

Scheduler::Lock Scheduler::lock() { return Lock(state().mutex); }

void Scheduler::add(const TaskPtr& task, const std::vector<TaskPtr>& after) {
  for (const TaskPtr& earlier : after) {
    if (!earlier || earlier->done) continue;
    earlier->next.push_back(task);
    ++task->missing;
  }
  if (task->missing > 0) return;
  state().ready.push_back(task);
  state().changed.notify_all();
}

// Tasks of other domains are left to their threads for 1 ms. After that this thread runs them too, because their
// threads may wait for this thread.
void Scheduler::finish(Lock& lock, const TaskPtr& task) {
  bool help = false;
  while (task && !task->done) {
    if (const TaskPtr own = pick(task->domain.get(), false)) {
      run(lock, own);
      help = false;
    } else if (const TaskPtr other = help ? pick(task->domain.get(), true) : nullptr) {
      run(lock, other);
    } else {
      if (state().running == 0 && state().ready.empty()) {
        std::fputs("emulator: a host thread waits for work that can never run\n", stderr);
        std::abort();
      }
      help = state().changed.wait_for(lock, std::chrono::milliseconds(1)) == std::cv_status::timeout;
    }
  }
}

void Scheduler::nudge(Lock& lock, const Domain* domain) {
  for (auto count = draw() % 4; count > 0; --count) {
    TaskPtr task = pick(domain, false);
    if (!task) task = pick(domain, true);
    if (task) run(lock, task);
  }
  lock.unlock();
  std::this_thread::yield();
  lock.lock();
}

}  // namespace emulator
