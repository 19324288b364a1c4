// Finds the rank or host that makes a job hang, from the heartbeat table. Pure functions.
#pragma once

#include "comm/heartbeat/heartbeat_table.h"
#include "health/phase_tracker.h"

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace ddp {

struct WatchdogLimits {
  using Time = std::chrono::milliseconds;
  // Limit of each phase of a step and of each batch of an evaluation; 0: no limit. Not given: 20 times the slowest
  // recent step and at least 60 s; before the first step, start_up and at least 60 s.
  std::optional<Time> step = {};
  Time start_up{300'000};                          // limit of start_up and reading; 0: no limit
  Time saving{600'000};                            // limit of saving and of ending; 0: no limit
  Time host_silence{kUnreachable_ns / 1'000'000};  // another host that is silent for longer is unreachable
  Time report_delay{0};  // this rank's delay before it reports a failure or a late rank, which others may report too
  Time report_interval{300};  // delay between the reports of two ranks of one host
};

// The limit of `phase`; empty: no limit.
std::optional<WatchdogLimits::Time> limit_of(Phase phase, const WatchdogLimits& limits,
                                             std::chrono::nanoseconds slowest_step);

// The state of one rank, as the heartbeat table has it. Times are those of steady_ns().
struct RankView {
  int rank = 0;
  std::string host;
  Heartbeat heartbeat;
  int64_t heard_ns = 0;             // last news of the rank's host
  bool dead = false, left = false;  // its process is gone; it has ended on purpose
  int pid = 0;                      // 0: unknown
};

// Whether the rank waits for other ranks, by its phase and by the collective that it waits for.
bool waits(const RankView& view, int buckets);

// Whether the rank has shown no sign of life for 3 s, while its host was heard from.
bool stopped(const RankView& view, int64_t now_ns, const WatchdogLimits& limits);
// Whether the rank's host was heard from once and has then been silent for longer than limits.host_silence.
bool host_unreachable(const RankView& view, int64_t now_ns, const WatchdogLimits& limits);
// The leader (lowest rank) of a host that is stopped; null: none is. A host with a stopped leader hears of no other.
const RankView* stopped_leader(std::span<const RankView> ranks, int64_t now_ns, const WatchdogLimits& limits);

// Such as "rank 5 on host b has been in the data loader for 41.0 s; 7 ranks wait in bucket 2 of step 812". `buckets`:
// number of buckets of a step; the collectives after them are counted apart.
std::string describe(std::span<const RankView> ranks, int buckets, const WatchdogLimits& limits, int64_t now_ns);

// For one rank: "rank 5 on host b has waited in bucket 2 of step 812 for 41.0 s".
std::string describe(const RankView& view, int buckets, int64_t now_ns);

}  // namespace ddp
