#include "comm/mpi/engine.h"

#include "core/error.h"
#include "core/stopwatch.h"

#include <sched.h>
#include <sys/prctl.h>

#include <algorithm>
#include <chrono>

namespace ddp {
namespace {

using std::chrono::microseconds;

constexpr microseconds kPatience(200);     // without a poll for so long, the thread takes over
constexpr microseconds kNap(50);           // between its polls then
constexpr microseconds kLongestNap(6400);  // between its looks while others poll, or nothing is outstanding
constexpr microseconds kLull(100'000);     // without a poll for so long, with nothing outstanding, it sleeps
constexpr microseconds kErrand(100'000);   // between two runs of an errand

}  // namespace

Engine::Engine() : thread_([this] { poll_when_nobody_does(); }) {}

Engine::~Engine() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

void Engine::attach(Lane& lane) {
  const std::lock_guard lock(mutex_);
  lanes_.push_back(&lane);
}

void Engine::detach(Lane& lane) noexcept {
  const std::lock_guard lock(mutex_);
  std::erase(lanes_, &lane);
  abandoned_ |= !lane.idle();
}

void Engine::attach(Errand& errand) {
  {
    const std::lock_guard lock(mutex_);
    DDP_EXPECT(!errand_);
    errand_ = &errand;
  }
  wake_.notify_one();
}

void Engine::detach(Errand& errand) noexcept {
  const std::lock_guard lock(mutex_);
  if (errand_ == &errand) errand_ = nullptr;
}

Communicator::Sequence Engine::start(Lane& lane, const Collective& collective) {
  Communicator::Sequence n = 0;
  bool asleep = false;
  {
    const std::lock_guard lock(mutex_);
    if (failure_) std::rethrow_exception(failure_);
    last_poll_ns_.store(steady_ns(), std::memory_order_relaxed);
    n = lane.push(collective);
    busy_.store(true, std::memory_order_relaxed);
    asleep = asleep_;
  }
  if (asleep) wake_.notify_one();
  return n;
}

void Engine::progress() {
  if (!busy_.load(std::memory_order_relaxed)) return;
  last_poll_ns_.store(steady_ns(), std::memory_order_relaxed);
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (lock) advance();
}

void Engine::wait(Lane& lane, Communicator::Sequence n) {
  DDP_EXPECT(n <= lane.issued());
  for (;; sched_yield()) {
    last_poll_ns_.store(steady_ns(), std::memory_order_relaxed);
    const std::lock_guard lock(mutex_);
    if (lane.completed() >= n) return;
    advance();
    if (lane.completed() >= n) return;
  }
}

void Engine::advance() {
  if (failure_) std::rethrow_exception(failure_);
  run_errand();
  try {
    bool busy = false;
    for (Lane* const lane : lanes_) {
      if (!lane->idle()) lane->advance();
      busy |= !lane->idle();
    }
    busy_.store(busy, std::memory_order_relaxed);
  } catch (...) {
    failure_ = std::current_exception();
    throw;
  }
}

void Engine::run_errand() noexcept {
  if (!errand_) return;
  const int64_t now = steady_ns();
  if (now < errand_due_ns_) return;
  errand_due_ns_ = now + std::chrono::nanoseconds(kErrand).count();
  errand_->run(now);
}

// Asleep while nothing has been outstanding for long, but for errands. Else it looks now and then whether the computing
// thread still polls, ever more rarely while it does, and polls in its place when it does not.
void Engine::poll_when_nobody_does() {
  prctl(PR_SET_TIMERSLACK, 1000);  // ns: the default of 50 us would double a nap
  std::unique_lock lock(mutex_);
  microseconds nap = kPatience;
  const auto unpolled_for = [this](microseconds time) {
    return steady_ns() - last_poll_ns_.load(std::memory_order_relaxed) >= std::chrono::nanoseconds(time).count();
  };
  while (!stop_ && !failure_) {
    run_errand();
    if (!busy_ && unpolled_for(kLull)) {
      asleep_ = true;
      if (errand_)
        wake_.wait_for(lock, std::chrono::nanoseconds(errand_due_ns_ - steady_ns()) + kErrand,
                       [this] { return stop_ || busy_; });
      else
        wake_.wait(lock, [this] { return stop_ || busy_ || errand_; });
      asleep_ = false;
      nap = kPatience;
      continue;
    }
    if (wake_.wait_for(lock, nap, [this] { return stop_; })) return;
    if (!busy_ || !unpolled_for(kPatience)) {
      nap = std::min(std::max(2 * nap, kPatience), kLongestNap);
      continue;
    }
    nap = kNap;
    try {
      advance();
    } catch (...) {  // kept in failure_ for the computing thread
    }
  }
}

}  // namespace ddp
