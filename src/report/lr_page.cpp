#include "report/lr_page.h"

#include "report/plot.h"
#include "report/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace ddp::report {
namespace {

// Losses above the largest smoothed one would flatten the curve.
std::string plot_of(const LrRecord& record) {
  double most = 0;
  for (const LrStep& step : record.steps) most = std::max(most, step.smoothed);
  Series smoothed{.name = "smoothed loss", .colour = 0, .points = {}};
  Series losses{.name = "loss of a step", .colour = 1, .points = {}, .faint = true};
  size_t above = 0;
  for (const LrStep& step : record.steps) {
    smoothed.points.push_back({.x = step.lr, .y = step.smoothed, .low = step.smoothed, .high = step.smoothed});
    if (step.loss <= most)
      losses.points.push_back({.x = step.lr, .y = step.loss, .low = step.loss, .high = step.loss});
    else
      ++above;
  }
  Plot plot{.id = "rates",
            .title = "Loss over the learning rate",
            .unit = "",
            .x_name = "learning rate",
            .log_x = true,
            .note = above == 0 ? "" : fmt::format("{} losses of steps lie above the plot.", above),
            .series = {std::move(smoothed), std::move(losses)}};
  for (const auto& [lr, name] : {std::pair(record.steepest, "steepest descent"),
                                 std::pair(record.tenth, "a tenth of the rate with the least loss")})
    if (lr > 0)
      plot.marks.push_back(
          {.x = lr,
           .text = fmt::format("{}: {:.3g}{}", name, lr, lr == record.suggested ? ", the suggestion" : ""),
           .colour = lr == record.suggested ? 2 : 3});
  return draw(plot);
}

}  // namespace

std::string lr_page(const LrRecord& record, const PageInfo& info) {
  const std::string title = "Learning rates of " + html(record.subject);
  std::string lines;
  for (const std::string& line : record.lines) lines += fmt::format("<li>{}</li>", short_html(line, 500));
  std::string body = fmt::format("<header><h1>{}</h1>\n<ul class=\"speed\">{}</ul>\n</header>\n", title, lines);
  body += section("Range test", plot_of(record));
  return document(title, body, info);
}

}  // namespace ddp::report
