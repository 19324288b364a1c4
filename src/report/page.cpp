#include "report/page.h"

#include "core/error.h"
#include "report/confusion_grid.h"
#include "report/headline.h"
#include "report/plot.h"
#include "report/run_tables.h"
#include "report/step_parts.h"
#include "report/text.h"
#include "report/timeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

namespace ddp::report {
namespace {

// The unit of the horizontal axes. Where runs have epochs of different lengths, it is an epoch.
class Progress {
 public:
  explicit Progress(std::span<const RunRecord> runs) {
    for (const RunRecord& run : runs) {
      const int64_t steps = run.processes.empty() ? 0 : run.processes.back().steps_per_epoch;
      known_ = known_ && steps > 0;
      different_ = different_ || (first_ > 0 && steps != first_);
      if (first_ == 0) first_ = steps;
    }
  }
  bool by_epoch() const { return known_ && different_; }
  const char* name() const { return by_epoch() ? "epoch" : "step"; }

  std::vector<CurvePoint> scaled(const RunRecord& run, std::vector<CurvePoint> points) const {
    if (by_epoch())
      for (CurvePoint& point : points) point.x /= static_cast<double>(run.processes.back().steps_per_epoch);
    return points;
  }

 private:
  int64_t first_ = 0;
  bool known_ = true, different_ = false;
};

template <class Event>
std::vector<CurvePoint> curve_of(const std::vector<Event>& events, double Event::*value) {
  Curve curve;
  for (const Event& event : events) curve.add(static_cast<double>(event.step), event.*value);
  return curve.points();
}

// Such as "--lr was 0.2, is 0.01".
std::string text_of(const OptionChange& change) {
  return fmt::format("{} was {}, is {}", change.option, change.from.empty() ? "not set" : change.from, change.to);
}

bool is_constant(const std::vector<CurvePoint>& points) {
  return std::ranges::all_of(
      points, [&](const CurvePoint& p) { return p.low == points.front().low && p.high == points.front().low; });
}

class Plots {
 public:
  explicit Plots(std::span<const RunRecord> runs) : runs_(runs), progress_(runs) {}

  std::string loss() const {
    Plot plot{.id = "loss",
              .title = "Loss",
              .unit = "",
              .x_name = progress_.name(),
              .may_be_log = true,
              .note = "",
              .series = {}};
    for (size_t r = 0; r < runs_.size(); ++r) {
      const bool one = runs_.size() == 1;
      plot.series.push_back({.name = one ? "training" : runs_[r].name + ", training",
                             .colour = colour(r, 0),
                             .points = progress_.scaled(runs_[r], runs_[r].loss.points()),
                             .faint = !one});
      plot.series.push_back({.name = one ? "test" : runs_[r].name + ", test",
                             .colour = colour(r, 1),
                             .points = progress_.scaled(runs_[r], curve_of(runs_[r].evaluations, &EvalEvent::loss)),
                             .dots = true});
    }
    plot.marks = marks();
    return draw(plot);
  }
  std::string accuracy() const {
    return one_for_each("accuracy", "Test accuracy", "", false, true,
                        [](const RunRecord& run) { return curve_of(run.evaluations, &EvalEvent::accuracy); });
  }
  std::string perplexity() const {
    return one_for_each("perplexity", "Test perplexity", "", false, true,
                        [](const RunRecord& run) { return curve_of(run.evaluations, &EvalEvent::perplexity); });
  }
  std::string throughput() const {
    if (std::ranges::all_of(runs_, &RunRecord::of_tokens))
      return one_for_each("throughput", "Throughput", "tokens/s", true, false,
                          [](const RunRecord& run) { return run.token_throughput.points(); });
    return one_for_each("throughput", "Throughput", "samples/s", true, false,
                        [](const RunRecord& run) { return run.throughput.points(); });
  }
  std::string noise_scale() const {
    return one_for_each("noise", "Gradient noise scale", "samples", true, true,
                        [](const RunRecord& run) { return curve_of(run.speeds, &SpeedEvent::noise_scale); });
  }
  std::string learning_rate() const {
    std::string same;
    for (const RunRecord& run : runs_)
      if (const auto points = run.lr.points(); !points.empty()) {
        if (!is_constant(points))
          return one_for_each("rate", "Learning rate", "", true, false,
                              [](const RunRecord& r) { return r.lr.points(); });
        same += (same.empty() ? "" : "; ") + (runs_.size() > 1 ? html(run.name) + ": " : "") + number(points.front().y);
      }
    return same.empty() ? "" : "<p class=\"note\">The learning rate is constant: " + same + ".</p>\n";
  }

 private:
  int colour(size_t run, int quantity) const { return runs_.size() > 1 ? static_cast<int>(run) : quantity; }

  template <class Points>
  std::string one_for_each(const char* id, const char* title, const char* unit, bool from_zero, bool dots,
                           Points points) const {
    Plot plot{.id = id,
              .title = title,
              .unit = unit,
              .x_name = progress_.name(),
              .from_zero = from_zero,
              .note = "",
              .series = {}};
    for (size_t r = 0; r < runs_.size(); ++r)
      plot.series.push_back({.name = runs_.size() > 1 ? runs_[r].name : title,
                             .colour = colour(r, dots ? 1 : 0),
                             .points = progress_.scaled(runs_[r], points(runs_[r])),
                             .dots = dots});
    plot.marks = marks();
    return draw(plot);
  }

  std::vector<Mark> marks() const {
    std::vector<Mark> marks;
    for (size_t r = 0; r < runs_.size(); ++r)
      for (const OptionChange& change : runs_[r].changes) {
        const double x = progress_.scaled(runs_[r], {{.x = static_cast<double>(change.step)}}).front().x;
        marks.push_back({.x = x, .text = text_of(change), .colour = colour(r, 2)});
      }
    return marks;
  }

  const std::span<const RunRecord> runs_;
  const Progress progress_;
};

// A line for each run whose options --change has changed.
std::string changes(std::span<const RunRecord> runs) {
  std::string lines;
  for (size_t r = 0; r < runs.size(); ++r) {
    std::string texts;
    for (const OptionChange& change : runs[r].changes)
      texts += fmt::format("{}{} after step {}", texts.empty() ? "" : "; ", short_html(text_of(change), 200),
                           number(static_cast<double>(change.step)));
    if (!texts.empty())
      lines += fmt::format("<p class=\"note\">{}Changed: {}.</p>\n",
                           runs.size() > 1 ? name_with_key(runs, r) + ": " : "", texts);
  }
  return lines;
}

std::string curves(std::span<const RunRecord> runs) {
  const Plots plots(runs);
  std::string legend;
  if (runs.size() > 1) {
    legend = "<p class=\"legend\">";
    for (size_t r = 0; r < runs.size(); ++r) legend += fmt::format("<span>{}</span> ", name_with_key(runs, r));
    legend += "<span>thin: training, with dots: test</span></p>\n";
  }
  const std::string rate = plots.learning_rate();
  const bool drawn = rate.starts_with("<figure");
  const std::string figures = plots.loss() + plots.perplexity() + plots.accuracy() + plots.throughput() +
                              plots.noise_scale() + (drawn ? rate : "");
  if (figures.empty()) return "<p>No step has been recorded yet.</p>\n";
  return legend + changes(runs) + "<div class=\"figures\">" + figures + "</div>\n" + (drawn ? "" : rate) +
         epoch_tables(runs);
}

std::string parts_of_a_step(std::span<const RunRecord> runs) {
  double longest = 0;
  for (const RunRecord& run : runs)
    for (const Parts& rank : run.ranks) longest = std::max(longest, rank.total());
  std::string figures, note;
  for (const RunRecord& run : runs) figures += draw_step_parts(run.name, run.ranks, longest);
  if (figures.empty()) return "";
  for (const RunRecord& run : runs)
    if (run.speeds.empty() && !run.ranks.empty())
      note = "<p class=\"note\">Before the end of its first epoch a run has the times of rank 0 alone.</p>\n";
  return step_parts_legend() + "<div class=\"figures\">" + figures + "</div>\n" + note;
}

std::string timelines(std::span<const RunRecord> runs) {
  std::string figures;
  for (size_t r = 0; r < runs.size(); ++r)
    if (runs[r].timeline)
      figures +=
          draw_timeline(runs[r].name, *runs[r].timeline, fmt::format("timeline{}", r == 0 ? "" : std::to_string(r)));
  if (!figures.empty()) return timeline_legend() + figures;
  return "<p>Not recorded. A training with <code>--trace FILE</code> records a typical step: when each layer computes, "
         "and "
         "when each bucket is summed.</p>\n";
}

std::string classes(std::span<const RunRecord> runs) {
  std::string figures;
  for (const RunRecord& run : runs)
    if (run.confusion) figures += draw_confusion(run.name, *run.confusion);
  return (figures.empty() ? "" : "<div class=\"figures\">" + figures + "</div>\n") + class_tables(runs);
}

}  // namespace

std::string page(std::span<const RunRecord> runs, const PageInfo& info) {
  DDP_EXPECT(!runs.empty() && std::cmp_less_equal(runs.size(), Plot::kColours));
  const std::string title = title_of(runs);
  std::string text = fmt::format("<header><h1>{}</h1>\n{}</header>\n", title, headline(runs));
  text += section("Learning", curves(runs));
  text += section("Where the time of a step goes", parts_of_a_step(runs));
  text += section("Buckets of a typical step", timelines(runs));
  text += section("Classes", classes(runs));
  text += section("Options", option_tables(runs));
  text += section("Versions", process_table(runs));
  return document(title, text, info);
}

}  // namespace ddp::report
