#include "scheduler.h"

#include "emulator/emulator.h"

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <utility>

namespace emulator {
namespace {

struct State {
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<TaskPtr> ready;
  int running = 0;

  // Threads that take turns.
  std::condition_variable turned;
  std::vector<int> members;
  int turn = 0;
  size_t idle = 0;  // passed turns since a thread has made progress
  std::function<void()> unblock;
};

thread_local int member = -1;  // this thread in the turns; -1: it takes none

State& state() {
  static State& state = *new State;
  return state;
}

bool may_run(const Task& task) { return !task.work.ready || task.work.ready(); }

// Picks the most urgent ready task three times of four, else a random one. So one branch can run far ahead of another.
TaskPtr pick(const Domain* domain, bool foreign) {
  std::vector<size_t> choice;
  for (size_t i = 0; i < state().ready.size(); ++i)
    if ((state().ready[i]->domain.get() != domain) == foreign && may_run(*state().ready[i])) choice.push_back(i);
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
  state().idle = 0;
  if (!task->work.run) return complete(task);
  lock.unlock();
  task->work.run();
  task->work = {};
  lock.lock();
  complete(task);
}

[[noreturn]] void never_ends() {
  std::fputs("emulator: a host thread waits for work that can never run\n", stderr);
  std::abort();
}

void give_turn_to_another() {
  std::vector<int> others = state().members;
  std::erase(others, member);
  if (others.empty()) return;
  state().turn = others[draw() % others.size()];
  state().turned.notify_all();
}

void await_turn(Scheduler::Lock& lock) {
  state().turned.wait(lock, [] { return state().turn == member; });
}

// A thread that takes turns has nothing to run. The other threads go on; if they have nothing to run either, it runs a
// task of theirs, because a thread that waits for another thread does not run its own.
void wait_in_turns(Scheduler::Lock& lock, const Domain* domain) {
  const size_t members = state().members.size();
  const TaskPtr other = state().idle > 4 * members ? pick(domain, true) : nullptr;
  if (other) return run(lock, other);
  Scheduler::pass_turn(lock);
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

void Scheduler::finish(Lock& lock, const TaskPtr& task) {
  if (task) wait(lock, task->domain.get(), [&] { return task->done; });
}

// Threads that take no turns leave the tasks of other domains to their threads for 1 ms. After that this thread runs
// them too, because their threads may wait for this thread.
void Scheduler::wait(Lock& lock, const Domain* domain, const std::function<bool()>& done) {
  bool help = false;
  while (!done()) {
    if (const TaskPtr own = domain ? pick(domain, false) : nullptr) {
      run(lock, own);
      help = false;
    } else if (member >= 0) {
      wait_in_turns(lock, domain);
    } else if (const TaskPtr other = help ? pick(domain, true) : nullptr) {
      run(lock, other);
    } else {
      if (state().running == 0 && state().ready.empty()) never_ends();
      help = state().changed.wait_for(lock, std::chrono::milliseconds(1)) == std::cv_status::timeout;
    }
  }
  state().idle = 0;
}

void Scheduler::pass_turn(Lock& lock) {
  if (member < 0) {
    lock.unlock();
    std::this_thread::yield();
    lock.lock();
    return;
  }
  if (++state().idle > 100 * state().members.size()) {
    const auto unblock = std::exchange(state().unblock, nullptr);
    if (!unblock) never_ends();
    state().idle = 0;
    unblock();
  }
  give_turn_to_another();
  await_turn(lock);
}

void Scheduler::nudge(Lock& lock, const Domain* domain) {
  for (auto count = draw() % 4; count > 0; --count) {
    TaskPtr task = pick(domain, false);
    if (!task) task = pick(domain, true);
    if (task) run(lock, task);
  }
  pass_turn(lock);
}

void run_in_turns(int count, const std::function<void(int)>& body) {
  {
    const auto lock = Scheduler::lock();
    for (int i = 0; i < count; ++i) state().members.push_back(i);
    state().turn = static_cast<int>(draw() % state().members.size());
  }
  std::vector<std::thread> threads;
  for (int i = 0; i < count; ++i)
    threads.emplace_back([&body, i] {
      member = i;
      auto lock = Scheduler::lock();
      await_turn(lock);
      lock.unlock();
      body(i);
      lock.lock();
      give_turn_to_another();
      std::erase(state().members, i);
      state().idle = 0;
    });
  for (std::thread& thread : threads) thread.join();
}

void wait_until(const std::function<bool()>& done) {
  auto lock = Scheduler::lock();
  Scheduler::wait(lock, nullptr, done);
}

void when_blocked(std::function<void()> unblock) {
  const auto lock = Scheduler::lock();
  state().unblock = std::move(unblock);
}

void yield() {
  auto lock = Scheduler::lock();
  Scheduler::pass_turn(lock);
}

}  // namespace emulator
