#include "health/ranks_view.h"

#include <algorithm>

namespace ddp {
namespace {

using State = RankStatus::State;

RankStatus status_of(const RankView& view, const WatchdogLimits& limits, std::chrono::nanoseconds slowest_step,
                     int64_t now_ns) {
  const Heartbeat& heartbeat = view.heartbeat;
  const auto seconds = [now_ns](int64_t since_ns) { return 1e-9 * static_cast<double>(now_ns - since_ns); };
  const std::chrono::nanoseconds in_phase(now_ns - heartbeat.since_ns);
  RankStatus status{.rank = view.rank, .host = view.host, .silent_seconds = {}};
  if (heartbeat.alive_ns == 0) return status;
  status.phase = static_cast<Phase>(heartbeat.phase);
  status.step = heartbeat.step;
  status.phase_seconds = seconds(heartbeat.since_ns);
  status.silent_seconds = seconds(heartbeat.alive_ns);
  const auto limit = limit_of(status.phase, limits, slowest_step);
  const bool silent = now_ns - std::min(heartbeat.alive_ns, view.heard_ns) > kSilent_ns;
  status.state = view.left                       ? State::ended
                 : view.dead                     ? State::dead
                 : stopped(view, now_ns, limits) ? State::stopped
                 : silent                        ? State::unreachable
                 : limit && in_phase > *limit    ? State::late
                                                 : State::running;
  return status;
}

}  // namespace

const char* key_of(State state) {
  switch (state) {
    case State::running: return "running";
    case State::late: return "late";
    case State::stopped: return "stopped";
    case State::unreachable: return "unreachable";
    case State::dead: return "dead";
    case State::ended: return "ended";
    case State::unknown: return "unknown";
  }
  return "unknown";
}

std::vector<RankStatus> ranks_view(std::span<const RankView> ranks, const WatchdogLimits& limits,
                                   std::chrono::nanoseconds slowest_step, int64_t now_ns) {
  std::vector<RankStatus> all;
  for (const RankView& view : ranks) all.push_back(status_of(view, limits, slowest_step, now_ns));
  return all;
}

bool all_run(std::span<const RankStatus> ranks) {
  return std::ranges::all_of(ranks, [](const RankStatus& status) { return status.state == State::running; });
}

}  // namespace ddp
