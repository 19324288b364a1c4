#include "health/watchdog.h"

#include <utility>

namespace ddp {

Watchdog::Watchdog(const WatchdogLimits& limits, PhaseTracker& phases, std::function<void(const std::string&)> expired)
    : faults_(limits, phases), expired_(std::move(expired)), thread_([this] { watch(); }) {}

Watchdog::~Watchdog() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

Watchdog::MonitorGuard Watchdog::monitor(const Communicator& communicator, const Communicator* other, int buckets,
                                         int others) {
  const std::lock_guard lock(mutex_);
  faults_.monitor(communicator, other, buckets, others);
  return MonitorGuard(*this);
}

void Watchdog::end_monitoring() {
  const std::lock_guard lock(mutex_);
  faults_.end_monitoring();
}

std::vector<RankStatus> Watchdog::ranks() const {
  const std::lock_guard lock(mutex_);
  return faults_.ranks();
}

void Watchdog::watch() {
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, kCheckInterval, [this] { return stop_; })) {
    const std::string text = faults_.check();
    if (text.empty()) continue;
    lock.unlock();
    expired_(text);
    return;
  }
}

}  // namespace ddp
