#include "telemetry/typical_step.h"

#include <algorithm>
#include <array>
#include <map>
#include <string_view>

namespace ddp {
namespace {

struct Extent {
  int64_t begin_ns, end_ns;
  int64_t ranks;     // that have the step
  size_t last_rank;  // that was counted
};

}  // namespace

bool in_timeline(const Span& span) {
  constexpr std::array<std::string_view, 4> phases{"data", "compute", "allreduce", "update"};
  constexpr std::array<std::string_view, 2> passes{"forward", "backward"};
  switch (span.track) {
    case Track::step: return std::ranges::find(phases, span.name) != phases.end();
    case Track::layers: return std::ranges::find(passes, span.name) != passes.end();
    case Track::buckets: return true;
    default: return false;
  }
}

std::optional<StepTimeline> typical_step(std::span<const std::vector<Span>> ranks) {
  std::map<int64_t, Extent> steps;
  for (size_t rank = 0; rank < ranks.size(); ++rank)
    for (const Span& span : ranks[rank]) {
      const auto [at, added] = steps.try_emplace(span.number, Extent{span.begin_ns, span.end_ns, 1, rank});
      Extent& extent = at->second;
      extent.begin_ns = std::min(extent.begin_ns, span.begin_ns);
      extent.end_ns = std::max(extent.end_ns, span.end_ns);
      if (extent.last_rank != rank) ++extent.ranks;
      extent.last_rank = rank;
    }
  std::vector<std::pair<int64_t, int64_t>> durations;  // (duration, step)
  for (const auto& [step, extent] : steps)
    if (extent.ranks == std::ssize(ranks)) durations.emplace_back(extent.end_ns - extent.begin_ns, step);
  if (durations.empty()) return std::nullopt;
  const auto middle = durations.begin() + std::ssize(durations) / 2;
  std::ranges::nth_element(durations, middle);

  const auto& [duration, step] = *middle;
  const int64_t begin = steps.at(step).begin_ns;
  StepTimeline timeline{.step = step, .ranks = {}, .duration_ns = duration};
  for (const std::vector<Span>& spans : ranks) {
    std::vector<Span>& shown = timeline.ranks.emplace_back();
    for (Span span : spans) {
      if (span.number != step) continue;
      span.begin_ns -= begin;
      span.end_ns -= begin;
      shown.push_back(span);
    }
  }
  return timeline;
}

}  // namespace ddp
