// Ends a job that hangs. A thread of its own looks ten times a second how long this rank has been in its phase, whether
// a rank of its host has died, whether other hosts are heard of, and whether the transport has failed; then it says,
// once, which rank is to blame as far as the heartbeat table tells, and calls `expired`, which is expected not to
// return.
//
// Ranks that see the same take turns, and look again before they speak: the first to speak leaves the heartbeat table
// and ends the job, and whoever sees that a rank has left is silent; but a host that is cut off from another ends
// itself. A look that comes seconds late means that this whole host slept; then all ages start anew.
#pragma once

#include "comm/communicator.h"
#include "comm/heartbeat_table.h"
#include "train/diagnosis.h"
#include "train/phase_tracker.h"

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace ddp {

class Watchdog {
 public:
  // All outlive it.
  Watchdog(const WatchdogLimits& limits, PhaseTracker& phases, std::function<void(const std::string&)> expired);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  // From now on it counts the collectives of `communicator`, of which a step has `buckets` and then `others`, and looks
  // for a failure of it and of `other`, which may be null; until the returned guard, which they outlive, ends.
  class MonitorGuard;
  [[nodiscard]] MonitorGuard monitor(const Communicator& communicator, const Communicator* other, int buckets,
                                     int others);

 private:
  enum class Fault : uint8_t { none, death, silence, failure, lateness };
  void watch();
  std::string check();  // what to say; empty: nothing
  std::vector<RankView> views(int64_t now_ns) const;
  std::optional<std::string> failure() const;
  Fault find_fault(const std::vector<RankView>& views, int64_t now_ns);
  bool late(const std::vector<RankView>& views, int64_t now_ns) const;
  std::chrono::milliseconds report_delay_of(Fault fault, const std::vector<RankView>& views, int64_t now_ns) const;
  void end_monitoring();

  const WatchdogLimits limits_;
  PhaseTracker& phases_;
  const std::function<void(const std::string&)> expired_;
  const int rank_;

  std::mutex mutex_;
  std::condition_variable changed_;
  bool stop_ = false;
  const Communicator* communicator_ = nullptr;
  const Communicator* other_ = nullptr;
  int buckets_ = 1;

  int64_t last_check_ns_, awake_since_ns_ = 0;
  int64_t someone_left_ns_ = 0;  // when that was seen first; 0: nobody has
  Fault fault_ = Fault::none;
  int64_t fault_since_ns_ = 0;
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
