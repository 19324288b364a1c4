// Finds the fault of a job from the heartbeat table, and the rank to blame as far as the table shows it. The watchdog
// checks ten times a second: the time of this rank in its phase, dead ranks on its host, silent hosts, and a failure of
// the transport.
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
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ddp {

// The time between two checks.
inline constexpr WatchdogLimits::Time kCheckInterval(100);

// One thread at a time may call it. Times are those of steady_ns().
class FaultFinder {
 public:
  FaultFinder(const WatchdogLimits& limits, PhaseTracker& phases);  // `phases` outlives it

  // Call it every kCheckInterval; it is a sign of life. Returns the text to report; empty: nothing.
  std::string check();

  // Counts the collectives of `communicator` (each step has `buckets`, then `others`) and checks it and `other`, which
  // may be null, for a failure, until end_monitoring().
  void monitor(const Communicator& communicator, const Communicator* other, int buckets, int others);
  void end_monitoring();

  std::vector<RankStatus> ranks() const;  // at this moment

 private:
  enum class Fault : uint8_t { none, death, silence, failure, lateness };
  std::vector<RankView> views(int64_t now_ns) const;
  std::optional<std::string> failure() const;
  Fault find_fault(const std::vector<RankView>& views, int64_t now_ns);
  bool late(const std::vector<RankView>& views, int64_t now_ns) const;
  std::chrono::milliseconds report_delay_of(Fault fault, const std::vector<RankView>& views, int64_t now_ns) const;

  const WatchdogLimits limits_;
  PhaseTracker& phases_;
  const int rank_;

  const Communicator* communicator_ = nullptr;
  const Communicator* other_ = nullptr;
  int buckets_ = 1;

  int64_t someone_left_ns_ = 0;  // when this rank first saw that a rank has left; 0: none has
  Fault fault_ = Fault::none;    // found by the last check
  int64_t fault_since_ns_ = 0;
};

}  // namespace ddp
