// What the watchdog sees of all ranks at a moment, for people and other programs. Pure functions.
#pragma once

#include "health/diagnosis.h"
#include "health/phase_tracker.h"

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace ddp {

struct RankStatus {
  enum class State : uint8_t {
    running,      // alive, and within the limit of its phase
    late,         // longer in its phase than the limit
    stopped,      // no sign of life for 3 s
    unreachable,  // no news of its host for 3 s
    dead,         // its process is gone
    ended,        // it has left the job on purpose
    unknown       // no heartbeat of it has ever come
  };
  int rank = 0;
  std::string host;
  State state = State::unknown;
  Phase phase = Phase::start_up;
  int64_t step = 0;
  double phase_seconds = 0;              // since the phase began
  std::optional<double> silent_seconds;  // since the last sign of life; none: there was none
};

const char* key_of(RankStatus::State state);  // such as "running"

// `slowest_step`: as for limit_of().
std::vector<RankStatus> ranks_view(std::span<const RankView> ranks, const WatchdogLimits& limits,
                                   std::chrono::nanoseconds slowest_step, int64_t now_ns);

// Whether every rank runs.
bool all_run(std::span<const RankStatus> ranks);

}  // namespace ddp
