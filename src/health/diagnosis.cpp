#include "health/diagnosis.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

namespace ddp {
namespace {

using Time = WatchdogLimits::Time;
using Ranks = std::vector<const RankView*>;

constexpr size_t kMaxListed = 3;  // ranks or hosts in a list

bool older(int64_t since_ns, int64_t now_ns, Time limit) {
  return now_ns - since_ns > std::chrono::nanoseconds(limit).count();
}

Phase phase_of(const RankView& view) { return static_cast<Phase>(view.heartbeat.phase); }

double seconds_since(int64_t since_ns, int64_t now_ns) { return 1e-9 * static_cast<double>(now_ns - since_ns); }

// What the rank waits for from other ranks; empty: nothing. A rank that updates weights, or waits for its device, waits
// for others as long as a collective of its step is not complete.
std::string awaited(const RankView& view, int buckets) {
  const Heartbeat& p = view.heartbeat;
  const Phase phase = phase_of(view);
  if (phase == Phase::replicas) return "in the comparison of replicas";
  if (phase == Phase::measuring) return "in the measurement of the communication";
  if (phase == Phase::shutdown) return "for the other ranks to shut down";
  if (phase != Phase::allreduce && phase != Phase::device && phase != Phase::update) return "";
  if (p.awaited_step == 0) return phase == Phase::allreduce ? fmt::format("in the allreduce of step {}", p.step) : "";
  if (p.awaited_step > p.step) return "";
  if (p.collective >= buckets)
    return fmt::format("in collective {} after the buckets of step {}", p.collective - buckets, p.awaited_step);
  return fmt::format("in bucket {} of step {}", p.collective, p.awaited_step);
}

// "a, b, c and 5 more".
std::string list(const std::vector<std::string>& texts) {
  const size_t named = std::min(texts.size(), kMaxListed);
  std::string all;
  for (size_t i = 0; i < named; ++i) all += (i == 0 ? "" : i + 1 == texts.size() ? " and " : ", ") + texts[i];
  if (texts.size() > named) all += fmt::format(" and {} more", texts.size() - named);
  return all;
}

// "rank 5 on host b", "ranks 1, 2 and 3 on host a", "ranks 1 (host a) and 3 (host b)".
std::string name(const Ranks& ranks) {
  const std::string& host = ranks[0]->host;
  if (ranks.size() == 1) return fmt::format("rank {} on host {}", ranks[0]->rank, host);
  const bool one_host = std::all_of(ranks.begin(), ranks.end(), [&](const auto* view) { return view->host == host; });
  std::vector<std::string> names;
  for (const RankView* view : ranks)
    names.push_back(one_host ? fmt::to_string(view->rank) : fmt::format("{} (host {})", view->rank, view->host));
  return "ranks " + list(names) + (one_host ? " on host " + host : "");
}

const char* has(const Ranks& ranks) { return ranks.size() == 1 ? "has" : "have"; }

int64_t first_since(const Ranks& ranks) {
  const auto first = std::min_element(ranks.begin(), ranks.end(), [](const RankView* a, const RankView* b) {
    return a->heartbeat.since_ns < b->heartbeat.since_ns;
  });
  return (*first)->heartbeat.since_ns;
}

std::string step_of(const RankView& view) {
  return view.heartbeat.step == 0 ? "before the first step" : fmt::format("in step {}", view.heartbeat.step);
}

// Once a fault is known, a short silence of a host is enough to count it as cut off.
bool cut_off(const RankView& view, int64_t now_ns, const WatchdogLimits& limits) {
  const bool silent = !view.left && view.heartbeat.alive_ns > 0 && now_ns - view.heard_ns > kSilent_ns;
  return silent || host_unreachable(view, now_ns, limits);
}

std::string describe_dead(const Ranks& dead) {
  std::vector<std::string> texts;
  for (const RankView* view : dead)
    texts.push_back(fmt::format("rank {} on host {} (pid {}) has died {}, {}", view->rank, view->host, view->pid,
                                step_of(*view), name_of(phase_of(*view))));
  return list(texts) + "; the launcher's message names the signal";
}

std::string describe_unreachable(const Ranks& ranks, int64_t now_ns) {
  std::map<std::string, Ranks> hosts;
  for (const RankView* view : ranks) hosts[view->host].push_back(view);
  std::vector<std::string> texts;
  for (const auto& [host, there] : hosts) {
    std::vector<std::string> numbers;
    for (const RankView* view : there) numbers.push_back(fmt::to_string(view->rank));
    texts.push_back(fmt::format("host {} ({} {}) cannot be reached: last heard from {:.1f} s ago, {}", host,
                                there.size() == 1 ? "rank" : "ranks", list(numbers),
                                seconds_since(there[0]->heard_ns, now_ns), step_of(*there[0])));
  }
  return list(texts) + ". The network to it is cut, or it is down or suspended: check it from here, then resume";
}

std::string describe_stopped(const Ranks& ranks, int64_t now_ns) {
  std::vector<std::string> texts;
  for (const RankView* view : ranks)
    texts.push_back(fmt::format("rank {} on host {} is stopped: no sign of life for {:.1f} s ({}, {})", view->rank,
                                view->host, seconds_since(view->heartbeat.alive_ns, now_ns), step_of(*view),
                                name_of(phase_of(*view))));
  return list(texts);
}

// Groups the waiting ranks by what they wait for, in the order of collectives.
std::vector<std::pair<std::string, Ranks>> waiting_groups(const Ranks& waiting, int buckets) {
  Ranks ordered = waiting;
  std::stable_sort(ordered.begin(), ordered.end(), [](const RankView* a, const RankView* b) {
    return std::pair(a->heartbeat.awaited_step, a->heartbeat.collective) <
           std::pair(b->heartbeat.awaited_step, b->heartbeat.collective);
  });
  std::vector<std::pair<std::string, Ranks>> groups;
  for (const RankView* view : ordered) {
    const std::string what = awaited(*view, buckets);
    const auto found =
        std::find_if(groups.begin(), groups.end(), [&](const auto& group) { return group.first == what; });
    if (found != groups.end())
      found->second.push_back(view);
    else
      groups.push_back({what, {view}});
  }
  return groups;
}

// "; 7 ranks wait in bucket 2 of step 812, rank 3 on host a waits in bucket 3 of step 812".
std::string describe_waiting(const Ranks& waiting, int buckets) {
  std::vector<std::string> texts;
  for (const auto& [what, ranks] : waiting_groups(waiting, buckets))
    texts.push_back(ranks.size() == 1 ? fmt::format("{} waits {}", name(ranks), what)
                                      : fmt::format("{} ranks wait {}", ranks.size(), what));
  return texts.empty() ? "" : "; " + list(texts);
}

std::string describe_busy(const RankView& view, const Ranks& ranks, bool with_step, int64_t now_ns) {
  const double seconds = seconds_since(first_since(ranks), now_ns);
  const Phase phase = phase_of(view);
  const Heartbeat& p = view.heartbeat;
  const bool summed = p.awaited_step > p.step && (phase == Phase::allreduce || phase == Phase::device);
  return fmt::format("{} {} been {} for {:.1f} s{}", name(ranks), has(ranks), name_of(phase), seconds,
                     summed      ? fmt::format(" (all collectives of step {} are done)", p.step)
                     : with_step ? fmt::format(" (step {})", p.step)
                                 : "");
}

// Describes the busy ranks that have been in their phase for long (at least half of `longest_ns`), else all busy ranks.
std::string describe_busy(Ranks busy, bool somebody_waits, int64_t now_ns, int64_t longest_ns) {
  const auto moving = [&](const RankView* view) { return 2 * (now_ns - view->heartbeat.since_ns) < longest_ns; };
  if (!std::all_of(busy.begin(), busy.end(), moving)) std::erase_if(busy, moving);
  std::map<std::pair<Phase, bool>, Ranks> groups;
  for (const RankView* view : busy)
    groups[{phase_of(*view), view->heartbeat.awaited_step > view->heartbeat.step}].push_back(view);
  std::vector<std::string> texts;
  for (const auto& [key, ranks] : groups)
    texts.push_back(describe_busy(*ranks[0], ranks, !somebody_waits && part_of_step(key.first), now_ns));
  return list(texts);
}

}  // namespace

std::optional<Time> limit_of(Phase phase, const WatchdogLimits& limits, std::chrono::nanoseconds slowest_step) {
  const auto unless_none = [](Time limit) { return limit.count() > 0 ? std::optional(limit) : std::nullopt; };
  switch (phase) {
    case Phase::start_up:
    case Phase::reading: return unless_none(limits.start_up);
    case Phase::saving:
    case Phase::shutdown: return unless_none(limits.saving);
    default: break;
  }
  if (limits.step) return unless_none(*limits.step);
  constexpr Time kLeast(60'000);
  if (slowest_step.count() > 0) return std::max(kLeast, std::chrono::duration_cast<Time>(20 * slowest_step));
  return limits.start_up.count() > 0 ? std::optional(std::max(kLeast, limits.start_up)) : std::nullopt;
}

bool waits(const RankView& view, int buckets) { return !awaited(view, buckets).empty(); }

bool host_unreachable(const RankView& view, int64_t now_ns, const WatchdogLimits& limits) {
  return !view.left && view.heartbeat.alive_ns > 0 && older(view.heard_ns, now_ns, limits.host_silence);
}

bool stopped(const RankView& view, int64_t now_ns, const WatchdogLimits& limits) {
  return !view.left && !view.dead && view.heartbeat.alive_ns > 0 && now_ns - view.heartbeat.alive_ns > kSilent_ns &&
         !cut_off(view, now_ns, limits);
}

const RankView* stopped_leader(std::span<const RankView> ranks, int64_t now_ns, const WatchdogLimits& limits) {
  for (const RankView& view : ranks) {
    const auto first =
        std::find_if(ranks.begin(), ranks.end(), [&](const RankView& other) { return other.host == view.host; });
    if (&*first == &view && stopped(view, now_ns, limits)) return &view;
  }
  return nullptr;
}

std::string describe(const RankView& view, int buckets, int64_t now_ns) {
  const std::string what = awaited(view, buckets);
  if (what.empty()) return describe_busy(view, {&view}, part_of_step(phase_of(view)), now_ns);
  return fmt::format("{} has waited {} for {:.1f} s", name({&view}), what,
                     seconds_since(view.heartbeat.since_ns, now_ns));
}

std::string describe(std::span<const RankView> ranks, int buckets, const WatchdogLimits& limits, int64_t now_ns) {
  Ranks dead, unreachable, silent, ended, waiting, busy;
  size_t unknown = 0;
  int64_t longest_ns = 0;
  for (const RankView& view : ranks) {
    if (view.left) {
      ended.push_back(&view);
    } else if (view.dead) {
      dead.push_back(&view);
    } else if (view.heartbeat.alive_ns == 0) {
      ++unknown;
    } else if (cut_off(view, now_ns, limits)) {
      unreachable.push_back(&view);
    } else if (stopped(view, now_ns, limits)) {
      silent.push_back(&view);
    } else {
      (waits(view, buckets) ? waiting : busy).push_back(&view);
    }
  }
  // Ranks in start-up wait for those that still read the data.
  const auto is_in = [](Phase phase) { return [phase](const RankView* view) { return phase_of(*view) == phase; }; };
  if (std::ranges::any_of(busy, is_in(Phase::reading))) std::erase_if(busy, is_in(Phase::start_up));
  for (const Ranks* group : {&waiting, &busy})
    for (const RankView* view : *group) longest_ns = std::max(longest_ns, now_ns - view->heartbeat.since_ns);

  if (!dead.empty()) return describe_dead(dead);
  if (!unreachable.empty() && !stopped_leader(ranks, now_ns, limits)) return describe_unreachable(unreachable, now_ns);

  const std::string others = describe_waiting(waiting, buckets) +
                             (unknown == 0 ? "" : fmt::format("; nothing is known about {} other ranks", unknown));
  if (!silent.empty()) return describe_stopped(silent, now_ns) + others + ". Find out what stopped it";
  const char* const hint = ". Look at that rank first, or raise --step-timeout";
  if (!busy.empty()) return describe_busy(busy, !waiting.empty(), now_ns, longest_ns) + others + hint;
  if (!ended.empty()) return fmt::format("{} {} ended", name(ended), has(ended)) + others + hint;

  const auto groups = waiting_groups(waiting, buckets);
  const char* const network = ". Look at the network between the hosts, or raise --step-timeout";
  if (groups.size() != 1) return others.substr(std::min<size_t>(others.size(), 2)) + network;
  const std::string all = waiting.size() == ranks.size() && waiting.size() > 1
                              ? fmt::format("all {} ranks have", ranks.size())
                              : fmt::format("{} {}", name(waiting), has(waiting));
  const auto last = std::max_element(waiting.begin(), waiting.end(), [](const RankView* a, const RankView* b) {
    return a->heartbeat.since_ns < b->heartbeat.since_ns;
  });
  return fmt::format("{} waited {} for {:.1f} s{}{}", all, groups[0].first,
                     seconds_since((*last)->heartbeat.since_ns, now_ns),
                     unknown == 0 ? "" : fmt::format("; nothing is known about {} other ranks", unknown), network);
}

}  // namespace ddp
