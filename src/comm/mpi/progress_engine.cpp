#include "comm/mpi/progress_engine.h"

#include "comm/mpi/poll_pause.h"
#include "core/error.h"
#include "core/stopwatch.h"

#include <algorithm>
#include <chrono>

namespace ddp {
namespace {

using std::chrono::microseconds;

// Times of the fallback thread. It naps for 5 ms: on Linux 6.18 shorter naps beside a computing thread starve other
// processes of the machine.
constexpr microseconds kNap(5000);            // between its checks
constexpr microseconds kFallbackDelay(2500);  // it polls if the computing thread has not polled for this time
constexpr microseconds kIdleDelay(100'000);   // it sleeps after this time without polls and outstanding collectives
constexpr microseconds kTaskPeriod(100'000);  // interval between two runs of a task

// Least times between two polls of progress() that ask the kernel for messages, and how many of them a poll shall find.
constexpr int64_t kLeastSpacing_ns = 100'000, kLargestSpacing_ns = 1'000'000;
constexpr int kFewMessages = 2, kManyMessages = 6;

// s without progress; then wait() sleeps between polls. Behind a long wait the next one is long too, as a rank that is
// faster than others waits in each step: it leaves its core to others, and keeps its quota of processor time.
constexpr double kPatience = 2e-3, kPatienceInLongWaits = 2e-4, kLongWait = 1e-3;
constexpr int kSpins = 50;  // polls of wait(), 1 us, before it yields the core; one, if it asks the kernel

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
  if (queue.asks_kernel()) poll_spacing_ns_ = kLeastSpacing_ns;
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

// A poll costs some microseconds where it asks the kernel, whether or not there is a message. So it comes as seldom as
// it finds some messages; the buffers of the kernel keep a link busy meanwhile.
void ProgressEngine::progress() {
  if (!busy_.load(std::memory_order_relaxed)) return;
  const int64_t now = steady_ns();
  if (now - last_poll_ns_.load(std::memory_order_relaxed) < poll_spacing_ns_) return;
  last_poll_ns_.store(now, std::memory_order_relaxed);
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock) return;
  run_task();
  const int messages = advance_until_dry();
  if (poll_spacing_ns_ == 0) return;
  if (messages > kManyMessages) poll_spacing_ns_ = std::max(poll_spacing_ns_ / 2, kLeastSpacing_ns);
  if (messages < kFewMessages) poll_spacing_ns_ = std::min(poll_spacing_ns_ * 2, kLargestSpacing_ns);
}

// MPI moves a message in one call and reports it in the next.
int ProgressEngine::advance_until_dry() {
  constexpr int kMost = 64;
  int messages = 0;
  for (int idle = 0; idle < 2 && messages < kMost && busy_;) {
    const bool moved = advance();
    messages += moved ? 1 : 0;
    idle = moved ? 0 : idle + 1;
  }
  return messages;
}

void ProgressEngine::wait(CollectiveQueue& queue, Communicator::Sequence n) {
  DDP_EXPECT(n <= queue.issued());
  const int spins = queue.asks_kernel() ? 1 : kSpins;
  const Stopwatch waiting;
  for (PollPause pause(waits_long_ ? kPatienceInLongWaits : kPatience); queue.completed() < n; pause()) {
    last_poll_ns_.store(steady_ns(), std::memory_order_relaxed);
    const std::lock_guard lock(mutex_);
    for (int spin = 0; spin < spins && queue.completed() < n; ++spin)
      if (advance()) pause.restart();
    if (queue.completed() >= n) break;
    run_task();
  }
  waits_long_ = waiting.seconds() > kLongWait;
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
// checks after each nap whether the computing thread still polls: if not, it polls.
void ProgressEngine::fallback_poll_loop() {
  std::unique_lock lock(mutex_);
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
      continue;
    }
    if (wake_.wait_for(lock, kNap, [this] { return stop_; })) return;
    if (!busy_ || !unpolled_for(kFallbackDelay)) continue;
    try {
      advance_until_dry();
    } catch (...) {  // advance() has stored the error in failure_ for the computing thread
    }
  }
}

}  // namespace ddp
