// Ends a job that hangs. A thread checks ten times a second: the time of this rank in its phase, dead ranks on its
// host, silent hosts, and a failure of the transport. On a fault it calls `expired` once, with a text that names the
// rank to blame as far as the heartbeat table shows it. `expired` is expected not to return.
//
// Several ranks may see the same fault. Each has its own delay before it reports and checks again when the delay is
// over. The first to report leaves the heartbeat table and ends the job; a rank that sees that another rank has left
// stays silent. A host that is cut off from another host ends its own ranks. A check that comes more than 2 s late
// means that this host was suspended; then all ages start again from 0.
#pragma once

#include "comm/communicator.h"
#include "comm/heartbeat/heartbeat_table.h"
#include "health/diagnosis.h"
#include "health/phase_tracker.h"
#include "health/ranks_view.h"

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
  // `phases` outlives it. `expired` is called from the watchdog's thread.
  Watchdog(const WatchdogLimits& limits, PhaseTracker& phases, std::function<void(const std::string&)> expired);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  // Counts the collectives of `communicator` (each step has `buckets`, then `others`) and checks it and `other`, which
  // may be null, for a failure, until the returned guard is destroyed. Both communicators outlive the guard.
  class MonitorGuard;
  [[nodiscard]] MonitorGuard monitor(const Communicator& communicator, const Communicator* other, int buckets,
                                     int others);

  std::vector<RankStatus> ranks() const;  // of now; any thread may call it

 private:
  enum class Fault : uint8_t { none, death, silence, failure, lateness };
  void watch();
  std::string check();  // the text to report; empty: nothing
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

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool stop_ = false;
  const Communicator* communicator_ = nullptr;
  const Communicator* other_ = nullptr;
  int buckets_ = 1;

  int64_t someone_left_ns_ = 0;  // when this rank first saw that a rank has left; 0: none has
  Fault fault_ = Fault::none;    // found by the last check
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
