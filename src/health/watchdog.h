// Ends a job that hangs. A thread checks for faults ten times a second (fault_finder.h). On a fault it calls `expired`
// once, with a text that names the rank to blame. `expired` is expected not to return.
#pragma once

#include "health/fault_finder.h"

#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace ddp {

class Watchdog {
 public:
  // `phases` outlives it. `expired` is called from the watchdog's thread.
  Watchdog(const WatchdogLimits& limits, PhaseTracker& phases, std::function<void(const std::string&)> expired);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  // Like FaultFinder::monitor(), until the returned guard is destroyed. Both communicators outlive the guard.
  class MonitorGuard;
  [[nodiscard]] MonitorGuard monitor(const Communicator& communicator, const Communicator* other, int buckets,
                                     int others);

  std::vector<RankStatus> ranks() const;  // at this moment; any thread may call it

 private:
  void watch();
  void end_monitoring();

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool stop_ = false;
  FaultFinder faults_;
  const std::function<void(const std::string&)> expired_;
  std::thread thread_;
};

class Watchdog::MonitorGuard {
 public:
  explicit MonitorGuard(Watchdog& watchdog) : watchdog_(&watchdog) {}
  ~MonitorGuard() { watchdog_->end_monitoring(); }
  MonitorGuard(const MonitorGuard&) = delete;
  MonitorGuard& operator=(const MonitorGuard&) = delete;

 private:
  Watchdog* watchdog_;
};

}  // namespace ddp
