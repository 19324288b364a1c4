#include "comm/mpi/progress_engine.h"

#include "comm/mpi/poll_pause.h"
#include "core/error.h"
#include "core/stopwatch.h"

#include <sys/prctl.h>

#include <algorithm>
#include <chrono>

namespace ddp {
namespace {

using std::chrono::microseconds;

// Times of the fallback thread.
constexpr microseconds kFallbackDelay(200);      // it polls after this time without a poll of the computing thread
constexpr microseconds kPollInterval(50);        // its interval between polls
constexpr microseconds kMaxCheckInterval(6400);  // its longest interval between checks
constexpr microseconds kIdleDelay(100'000);      // it sleeps after this time without polls and outstanding collectives
constexpr microseconds kTaskPeriod(100'000);     // interval between two runs of a task

constexpr double kPatience = 2e-3;  // s without progress; then wait() sleeps between polls
constexpr int kSpins = 50;          // polls of wait() before it yields the core: about 1 us

}  // namespace

ProgressEngine::ProgressEngine() : thread_([this] { fallback_poll_loop(); }) {}

ProgressEngine::~ProgressEngine() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

void ProgressEngine::attach(CollectiveQueue& queue) {
  const std::lock_guard lock(mutex_);
  queues_.push_back(&queue);
}

void ProgressEngine::detach(CollectiveQueue& queue) noexcept {
  const std::lock_guard lock(mutex_);
  std::erase(queues_, &queue);
  abandoned_ |= !queue.idle();
}

void ProgressEngine::attach(PeriodicTask& task) {
  {
    const std::lock_guard lock(mutex_);
    DDP_EXPECT(!task_);
    task_ = &task;
  }
  wake_.notify_one();
}

void ProgressEngine::detach(PeriodicTask& task) noexcept {
  const std::lock_guard lock(mutex_);
  if (task_ == &task) task_ = nullptr;
}

Communicator::Sequence ProgressEngine::start(CollectiveQueue& queue, const Collective& collective) {
  Communicator::Sequence n = 0;
  bool asleep = false;
  {
    const std::lock_guard lock(mutex_);
    if (failure_) std::rethrow_exception(failure_);
    last_poll_ns_.store(steady_ns(), std::memory_order_relaxed);
    n = queue.push(collective);
    busy_.store(true, std::memory_order_relaxed);
    asleep = asleep_;
  }
  if (asleep) wake_.notify_one();
  return n;
}

void ProgressEngine::progress() {
  if (!busy_.load(std::memory_order_relaxed)) return;
  last_poll_ns_.store(steady_ns(), std::memory_order_relaxed);
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock) return;
  run_task();
  advance();
}

void ProgressEngine::wait(CollectiveQueue& queue, Communicator::Sequence n) {
  DDP_EXPECT(n <= queue.issued());
  PollPause pause(kPatience);
  for (;; pause()) {
    last_poll_ns_.store(steady_ns(), std::memory_order_relaxed);
    const std::lock_guard lock(mutex_);
    for (int spin = 0; spin < kSpins; ++spin) {
      if (queue.completed() >= n) return;
      if (advance()) pause.restart();
    }
    if (queue.completed() >= n) return;
    run_task();
  }
}

bool ProgressEngine::advance() {
  if (failure_) std::rethrow_exception(failure_);
  try {
    bool busy = false, moved = false;
    for (CollectiveQueue* const queue : queues_) {
      if (!queue->idle()) moved |= queue->advance();
      busy |= !queue->idle();
    }
    busy_.store(busy, std::memory_order_relaxed);
    return moved;
  } catch (...) {
    failure_ = std::current_exception();
    throw;
  }
}

void ProgressEngine::run_task() noexcept {
  if (!task_) return;
  const int64_t now = steady_ns();
  if (now < task_due_ns_) return;
  task_due_ns_ = now + std::chrono::nanoseconds(kTaskPeriod).count();
  task_->run(now);
}

// When no collective has been outstanding for kIdleDelay, sleeps until the next start, task runs excepted. Otherwise
// checks whether the computing thread still polls: if so, doubles the interval to the next check; if not, polls.
void ProgressEngine::fallback_poll_loop() {
  prctl(PR_SET_TIMERSLACK, 1000);  // ns; the default of 50 us would double kPollInterval
  std::unique_lock lock(mutex_);
  microseconds interval = kFallbackDelay;
  const auto unpolled_for = [this](microseconds time) {
    return steady_ns() - last_poll_ns_.load(std::memory_order_relaxed) >= std::chrono::nanoseconds(time).count();
  };
  while (!stop_ && !failure_) {
    run_task();
    if (!busy_ && unpolled_for(kIdleDelay)) {
      asleep_ = true;
      if (task_)
        wake_.wait_for(lock, std::chrono::nanoseconds(task_due_ns_ - steady_ns()) + kTaskPeriod,
                       [this] { return stop_ || busy_; });
      else
        wake_.wait(lock, [this] { return stop_ || busy_ || task_; });
      asleep_ = false;
      interval = kFallbackDelay;
      continue;
    }
    if (wake_.wait_for(lock, interval, [this] { return stop_; })) return;
    if (!busy_ || !unpolled_for(kFallbackDelay)) {
      interval = std::min(std::max(2 * interval, kFallbackDelay), kMaxCheckInterval);
      continue;
    }
    interval = kPollInterval;
    try {
      advance();
    } catch (...) {  // advance() has stored the error in failure_ for the computing thread
    }
  }
}

}  // namespace ddp
