#include "health/fault_finder.h"

#include "core/error.h"
#include "core/stopwatch.h"

#include <algorithm>
#include <set>
#include <utility>

namespace ddp {
namespace {

using Time = WatchdogLimits::Time;

constexpr Time kReportDelayOfHost(1000);  // delay between the reports of two hosts, whose news takes 0.5 s
constexpr Time kTimeToLeave(10'000);      // time that all ranks have to leave after the first

constexpr int64_t ns(Time time) { return std::chrono::nanoseconds(time).count(); }

}  // namespace

FaultFinder::FaultFinder(const WatchdogLimits& limits, PhaseTracker& phases)
    : limits_(limits), phases_(phases), rank_(phases.heartbeats().rank()) {}

void FaultFinder::monitor(const Communicator& communicator, const Communicator* other, int buckets, int others) {
  DDP_EXPECT(!communicator_ && buckets > 0);
  communicator_ = &communicator;
  other_ = other;
  buckets_ = buckets;
  phases_.count(&communicator, buckets + others);
}

void FaultFinder::end_monitoring() {
  communicator_ = other_ = nullptr;
  phases_.count(nullptr, 1);
}

std::vector<RankStatus> FaultFinder::ranks() const {
  const int64_t now = steady_ns();
  return ranks_view(views(now), limits_, phases_.slowest_step(), now);
}

// A fault is reported when each check has found it for the whole delay of this rank.
std::string FaultFinder::check() {
  phases_.heartbeats().sign_of_life();
  phases_.publish_collective();

  const int64_t now = steady_ns();
  const auto seen = views(now);
  const Fault fault = find_fault(seen, now);
  if (fault != fault_) {
    fault_ = fault;
    fault_since_ns_ = now;
  }
  if (fault == Fault::none || now - fault_since_ns_ < ns(report_delay_of(fault, seen, now))) return "";
  if (fault != Fault::failure) return describe(seen, buckets_, limits_, now);
  return describe(seen[rank_], buckets_, now) + ", the transport failed: " + failure().value_or("");
}

// Times before a suspension of this host become the time when it resumed.
std::vector<RankView> FaultFinder::views(int64_t now_ns) const {
  const HeartbeatTable& heartbeats = phases_.heartbeats();
  const int64_t awake_since_ns = std::min(heartbeats.awake_since_ns(), now_ns);
  std::vector<RankView> views;
  for (int rank = 0; rank < heartbeats.size(); ++rank) {
    RankView view{.rank = rank,
                  .host = heartbeats.host_of(rank),
                  .heartbeat = heartbeats.read(rank),
                  .heard_ns = std::clamp(heartbeats.heard_ns(rank), awake_since_ns, now_ns),
                  .dead = heartbeats.dead(rank),
                  .left = heartbeats.left(rank),
                  .pid = heartbeats.pid_of(rank)};
    Heartbeat& heartbeat = view.heartbeat;
    heartbeat.since_ns = std::clamp(heartbeat.since_ns, awake_since_ns, now_ns);
    if (heartbeat.alive_ns > 0) heartbeat.alive_ns = std::clamp(heartbeat.alive_ns, awake_since_ns, now_ns);
    views.push_back(std::move(view));
  }
  return views;
}

std::optional<std::string> FaultFinder::failure() const {
  auto failure = communicator_ ? communicator_->failure() : std::nullopt;
  if (!failure && other_) failure = other_->failure();
  return failure;
}

FaultFinder::Fault FaultFinder::find_fault(const std::vector<RankView>& views, int64_t now_ns) {
  const auto any = [&](auto&& holds) { return std::any_of(views.begin(), views.end(), holds); };
  if (views[rank_].left) return Fault::none;
  const bool someone_left = any([](const RankView& view) { return view.left; });
  const bool left_here = any([&](const RankView& view) { return view.left && view.host == views[rank_].host; });
  if (someone_left && someone_left_ns_ == 0) someone_left_ns_ = now_ns;
  if (!someone_left && any([](const RankView& view) { return view.dead; })) return Fault::death;
  // With a stopped leader this host hears from no other host; the limit of the phase ends such a job.
  const auto& leader =
      *std::find_if(views.begin(), views.end(), [&](const RankView& view) { return view.host == views[rank_].host; });
  const bool hears_no_host = left_here || stopped(leader, now_ns, limits_);
  if (!hears_no_host && any([&](const RankView& view) { return host_unreachable(view, now_ns, limits_); }))
    return Fault::silence;
  if (someone_left && now_ns - someone_left_ns_ < ns(kTimeToLeave)) return Fault::none;
  if (failure()) return Fault::failure;
  return late(views, now_ns) ? Fault::lateness : Fault::none;
}

// A rank is not late while it waits for a rank that starts, reads or saves within its own limit. (The ranks wait for
// each other's evaluation once, at its end, and in the start-up after each stage.)
bool FaultFinder::late(const std::vector<RankView>& views, int64_t now_ns) const {
  const auto phase_of = [](const RankView& view) { return static_cast<Phase>(view.heartbeat.phase); };
  const auto exceeds = [&](const RankView& view) {
    const auto limit = limit_of(phase_of(view), limits_, phases_.slowest_step());
    return limit && now_ns - view.heartbeat.since_ns > ns(*limit);
  };
  const auto slow_within_limit = [&](const RankView& view) {
    const bool slow_phase =
        phase_of(view) == Phase::start_up || phase_of(view) == Phase::reading || phase_of(view) == Phase::saving;
    return slow_phase && view.heartbeat.alive_ns > 0 && !view.left && !stopped(view, now_ns, limits_) && !exceeds(view);
  };
  const RankView& mine = views[rank_];
  if (!exceeds(mine)) return false;
  const bool for_others =
      waits(mine, buckets_) || phase_of(mine) == Phase::evaluation || phase_of(mine) == Phase::start_up;
  return !for_others || std::none_of(views.begin(), views.end(), slow_within_limit);
}

// The lowest living rank of a host reports a death first; the first host that can report does so for a silent host.
std::chrono::milliseconds FaultFinder::report_delay_of(Fault fault, const std::vector<RankView>& views,
                                                       int64_t now_ns) const {
  if (fault == Fault::failure || fault == Fault::lateness) return limits_.report_delay;
  const std::string& host = views[rank_].host;
  int here = 0;
  std::set<std::string> hosts;
  for (const RankView& view : views) {
    const bool can_report = !view.dead && view.heartbeat.alive_ns > 0 && !stopped(view, now_ns, limits_) &&
                            !host_unreachable(view, now_ns, limits_);
    if (view.rank == rank_) break;
    if (!can_report) continue;
    if (view.host == host)
      ++here;
    else
      hosts.insert(view.host);
  }
  if (fault == Fault::death) return kCheckInterval + here * limits_.report_interval;
  return here * limits_.report_interval +
         static_cast<int>(hosts.contains(host) ? hosts.size() - 1 : hosts.size()) * kReportDelayOfHost;
}

}  // namespace ddp
