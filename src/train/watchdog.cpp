#include "train/watchdog.h"

#include <fmt/format.h>

#include <algorithm>

namespace ddp {
namespace {

constexpr auto kLook = std::chrono::milliseconds(100);

}  // namespace

Watchdog::Watchdog(const WatchdogConfig& config, const Communicator& communicator, const Communicator* other)
    : config_(config), communicator_(communicator), other_(other), thread_([this] { watch(); }) {}

Watchdog::~Watchdog() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Watchdog::started(int64_t step) {
  const std::lock_guard lock(mutex_);
  if (ended_ == started_) {
    first_ = step;
    ended_ = step - 1;
    before_first_ = communicator_.completed();
    since_ = Clock::now();
  }
  started_ = step;
}

void Watchdog::ended(int64_t step) {
  const std::lock_guard lock(mutex_);
  ended_ = step;
  since_ = Clock::now();
}

void Watchdog::started(const char* work) {
  const std::lock_guard lock(mutex_);
  work_ = work;
  since_ = Clock::now();
}

void Watchdog::ended() {
  const std::lock_guard lock(mutex_);
  work_ = nullptr;
}

void Watchdog::watch() {
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, kLook, [this] { return stop_; })) {
    const std::string text = finding();
    if (text.empty()) continue;
    lock.unlock();
    config_.expired(text);
    return;
  }
}

std::string Watchdog::finding() const {
  const bool in_step = started_ > ended_;
  auto failure = communicator_.failure();
  if (!failure && other_) failure = other_->failure();
  const auto waited = Clock::now() - since_;
  const bool late = (in_step || work_) && config_.limit.count() > 0 && waited > config_.limit;
  if (!failure && !late) return "";

  std::string text = in_step || work_
                         ? fmt::format("{} has not ended after {:.1f} s", in_step ? describe_step() : work_,
                                       std::chrono::duration<double>(waited).count())
                         : "between steps";
  if (failure) return text + "; the transport failed: " + *failure;
  return text + ". A rank is dead, stopped or cut off; look at the others' messages, or raise --step-timeout";
}

// Counting tells which collective of which step is awaited: those of a step follow those of the step before it.
std::string Watchdog::describe_step() const {
  const auto summed = static_cast<int64_t>(communicator_.completed() - before_first_);
  const int64_t collectives = config_.buckets + config_.others;
  const int64_t step = first_ + summed / collectives, at = summed % collectives;
  if (step > started_) return fmt::format("step {} (all its collectives are done)", started_);
  if (at < config_.buckets) return fmt::format("step {} (bucket {} of {} is not summed)", step, at, config_.buckets);
  return fmt::format("step {} (collective {} of {} behind its buckets is not done)", step, at - config_.buckets,
                     config_.others);
}

}  // namespace ddp
