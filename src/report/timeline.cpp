#include "report/timeline.h"

#include "report/axis.h"
#include "report/table.h"
#include "report/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

namespace ddp::report {
namespace {

using Out = std::back_insert_iterator<std::string>;

constexpr double kTimeWidth = 960, kTimeLeft = 96, kTimeRight = 950, kTimeLane = 17, kTimeBar = 14, kTimeGap = 5,
                 kFontWidth = 6.2;
constexpr size_t kTimeMostRanks = 8, kMostSpans = 3000, kMostLanes = 24;

struct Lane {
  double end = 0;  // of its last span
  std::vector<const Span*> spans;
};
struct Track {
  std::string name;
  std::vector<Lane> lanes;
};

// The tracks of a rank in the order of their first span. A span goes to the first lane of its track that is free.
// Buckets have a lane each while they are few: so each is as high in one rank as in another.
std::vector<Track> lanes_of(const RankSpans& rank, size_t& left_out) {
  constexpr size_t kFewBuckets = 12;
  std::vector<const Span*> spans;
  for (const Span& span : rank.spans) spans.push_back(&span);
  std::ranges::stable_sort(spans, {}, [](const Span* span) { return span->begin; });
  const auto buckets = std::ranges::count(rank.spans, "buckets", &Span::track);
  std::vector<Track> tracks;
  for (const Span& span : rank.spans)
    if (std::ranges::find(tracks, span.track, &Track::name) == tracks.end() && tracks.size() < kMostLanes)
      tracks.push_back({.name = span.track, .lanes = {}});
  for (const Span* span : spans) {
    const auto track = std::ranges::find(tracks, span->track, &Track::name);
    if (track == tracks.end()) {
      ++left_out;
      continue;
    }
    const bool alone = span->track == "buckets" && std::cmp_less_equal(buckets, kFewBuckets);
    auto lane = std::ranges::find_if(track->lanes, [&](const Lane& l) { return !alone && l.end <= span->begin; });
    if (lane == track->lanes.end()) {
      if (track->lanes.size() == kMostLanes) {
        ++left_out;
        continue;
      }
      lane = track->lanes.insert(lane, Lane{});
    }
    lane->end = span->end;
    lane->spans.push_back(span);
  }
  return tracks;
}

const char* style_of(const Span& span) {
  const auto says = [&](const char* word) { return span.name.find(word) != std::string::npos; };
  if (span.track == "buckets") return "p-bucket";
  if (says("backward")) return "p-backward";
  if (says("forward")) return "p-forward";
  if (says("data")) return "p-data";
  if (says("communication") || says("allreduce") || says("collective")) return "p-comm";
  return says("comput") ? "p-compute" : "p-other";
}

void draw_span(Out out, const Span& span, const Axis& x, double y, int64_t rank) {
  const double begin = x.at(span.begin), width = std::max(0.8, x.at(span.end) - begin);
  const std::string name = short_html(span.name);
  fmt::format_to(
      out,
      "<rect class=\"{}\" x=\"{:.2f}\" y=\"{}\" width=\"{:.2f}\" height=\"{}\" rx=\"2\" data-tip=\"rank {}, {}: {} ms, "
      "from {} to {} ms\"/>",
      style_of(span), begin, coordinate(y), width, kTimeBar, rank, name, number(span.end - span.begin),
      number(span.begin), number(span.end));
  if (static_cast<double>(span.name.size()) * kFontWidth < width - 6)
    fmt::format_to(out, "<text class=\"in\" x=\"{}\" y=\"{}\">{}</text>", coordinate(begin + 4), coordinate(y + 11),
                   name);
}

}  // namespace

std::string timeline_legend() {
  return legend({{"p-data", "waiting for data"},
                 {"p-forward", "computing, forward"},
                 {"p-backward", "backward"},
                 {"p-bucket", "bucket: from ready to summed"},
                 {"p-comm", "waiting for the allreduce"},
                 {"p-other", "update and others"}});
}

std::string draw_timeline(const std::string& run, const TimelineEvent& timeline, const std::string& id) {
  double low = 0, high = timeline.ms > 0 ? timeline.ms : 0;
  const size_t shown = std::min(kTimeMostRanks, timeline.ranks.size());
  for (size_t r = 0; r < shown; ++r)
    for (const Span& span : timeline.ranks[r].spans) {
      low = std::min(low, span.begin);
      high = std::max(high, span.end);
    }
  const Axis x({.low = low, .high = high, .from = kTimeLeft, .to = kTimeRight, .ticks = 8});
  std::string lanes;
  const Out out(lanes);
  size_t drawn = 0, left_out = 0;
  double y = 4;
  for (size_t r = 0; r < shown; ++r) {
    const RankSpans& rank = timeline.ranks[r];
    fmt::format_to(out, "<text class=\"rank\" x=\"0\" y=\"{}\">rank {}</text>", coordinate(y + 11), rank.rank);
    y += kTimeLane;
    for (const Track& track : lanes_of(rank, left_out)) {
      fmt::format_to(out, "<text class=\"track\" x=\"{}\" y=\"{}\">{}</text>", kTimeLeft - 8, coordinate(y + 11),
                     label_html(track.name, 12));
      for (const Lane& lane : track.lanes) {
        for (const Span* span : lane.spans)
          if (++drawn <= kMostSpans)
            draw_span(out, *span, x, y, rank.rank);
          else
            ++left_out;
        y += kTimeLane;
      }
    }
    y += kTimeGap;
  }
  std::string text;
  const Out page(text);
  fmt::format_to(page,
                 "<figure class=\"plot wide\" id=\"{}\"><figcaption><b>{}, step {}</b> <span>ms</span></figcaption>",
                 html(id), html(run), number(static_cast<double>(timeline.step)));
  fmt::format_to(page,
                 "<div class=\"scroll\"><svg viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"timeline of a step, ms\">",
                 kTimeWidth, coordinate(y + 22));
  fmt::format_to(page, "{}{}</svg></div><p class=\"readout\">the step takes {} ms</p>", vertical_ticks(x, 4, y, y + 16),
                 lanes, number(timeline.ms));
  if (shown < timeline.ranks.size())
    fmt::format_to(page, "<p class=\"note\">{} of {} ranks</p>", shown, timeline.ranks.size());
  if (left_out > 0) fmt::format_to(page, "<p class=\"note\">{} more spans are not drawn</p>", left_out);
  return text + "</figure>\n";
}

}  // namespace ddp::report
