// Who is to blame for a job that hangs, as far as the heartbeat table tells. Pure decisions.
#pragma once

#include "comm/heartbeat_table.h"
#include "train/phase_tracker.h"

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace ddp {

struct WatchdogLimits {
  using Time = std::chrono::milliseconds;
  // Of any phase of a step, and of a batch of an evaluation; 0: none; not given: 20 times the slowest step of late, at
  // least a minute, at least start_up before the first.
  std::optional<Time> step = {};
  Time start_up{300'000};                          // 0: none
  Time saving{600'000};                            // of saving and ending; 0: none
  Time host_silence{kUnreachable_ns / 1'000'000};  // of another host
  Time report_delay{0};       // how long this rank leaves it to others to speak first of what they see too
  Time report_interval{300};  // of a rank of this host, to speak before the next
};

// How long `phase` may last.
std::optional<WatchdogLimits::Time> limit_of(Phase phase, const WatchdogLimits& limits,
                                             std::chrono::nanoseconds slowest_step);

// What a look at the heartbeat table tells.
struct RankView {
  int rank = 0;
  std::string host;
  Heartbeat heartbeat;
  int64_t heard_ns = 0;
  bool dead = false, left = false;
  int pid = 0;  // 0: not known
};

// For other ranks: by its phase, and by the collective that it awaits.
bool waits(const RankView& view, int buckets);

// Without a sign of life for three seconds, on a host that was heard of since.
bool stopped(const RankView& view, int64_t now_ns, const WatchdogLimits& limits);
// On a host that was heard of once, and is no more.
bool host_unreachable(const RankView& view, int64_t now_ns, const WatchdogLimits& limits);
// The lowest rank of a host speaks for it: where that rank is stopped, its host hears of no other.
const RankView* stopped_leader(std::span<const RankView> ranks, int64_t now_ns, const WatchdogLimits& limits);

// Such as "rank 5 on host b has been in the data loader for 41.0 s; 7 ranks wait in bucket 2 of step 812". `buckets` of
// a step; later collectives are those behind its buckets.
std::string describe(std::span<const RankView> ranks, int buckets, const WatchdogLimits& limits, int64_t now_ns);

// Of one rank: "rank 5 on host b has waited in bucket 2 of step 812 for 41.0 s".
std::string describe(const RankView& view, int buckets, int64_t now_ns);

}  // namespace ddp
