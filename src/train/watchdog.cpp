#include "train/watchdog.h"

#include <fmt/format.h>

#include <algorithm>

namespace ddp {
namespace {

constexpr auto kLook = std::chrono::milliseconds(100);

}  // namespace

Watchdog::Watchdog(const WatchdogConfig& config, const Communicator& communicator)
    : config_(config), communicator_(communicator), thread_([this] { watch(); }) {}

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

// A step's collectives follow those of the steps before it, so counting tells which bucket is awaited.
std::string Watchdog::finding() const {
  const bool under_way = started_ > ended_;
  const auto failure = communicator_.failure();
  const auto waited = Clock::now() - since_;
  const bool late = under_way && config_.limit.count() > 0 && waited > config_.limit;
  if (!failure && !late) return "";

  std::string text;
  if (under_way) {
    const int64_t step = ended_ + 1;
    const auto summed =
        static_cast<int64_t>(communicator_.completed() - before_first_) - (step - first_) * config_.buckets;
    const std::string bucket = summed < config_.buckets ? fmt::format("bucket {} of {} is not summed",
                                                                      std::max<int64_t>(summed, 0), config_.buckets)
                                                        : "all its buckets are summed";
    text = fmt::format("step {} has not ended after {:.1f} s: {}", step, std::chrono::duration<double>(waited).count(),
                       bucket);
  } else {
    text = "between steps";
  }
  if (failure) return text + "; the transport failed: " + *failure;
  return text + ". A rank is dead, stopped or cut off; look at the others' messages, or raise --step-timeout";
}

}  // namespace ddp
