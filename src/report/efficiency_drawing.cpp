#include "report/efficiency_drawing.h"

#include "report/axis.h"
#include "report/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

namespace ddp::report {
namespace {

constexpr double kChartWidth = 640, kChartHeight = 360, kChartLeft = 64, kChartRight = 616, kChartTop = 76,
                 kChartBottom = 308, kChartLabel = 44;
constexpr size_t kMostTitle = 70;

// The colours of page.css, as values: not every reader of SVG knows variables.
constexpr const char* kChartStyle =
    "svg{background:#fbfbfa}"
    "text{font:12px system-ui,-apple-system,\"Segoe UI\",Roboto,\"Helvetica Neue\",Arial,sans-serif;fill:#5c646e}"
    ".head{font-size:18px;font-weight:650;fill:#1d2126}.end text{text-anchor:end}.mid text{text-anchor:middle}"
    ".grid path{stroke:#e3e5e8;fill:none}.line{fill:none;stroke-width:2;stroke-linejoin:round}"
    ".s0{color:#0072b2}.s1{color:#d55e00}.line,.dot{stroke:currentColor}.dot{fill:currentColor}"
    "@media(prefers-color-scheme:dark){svg{background:#14171a}text{fill:#9aa4ae}.head{fill:#e4e7ea}"
    ".grid path{stroke:#30363c}.s0{color:#56b4e9}.s1{color:#e69f00}}";

void draw_chart_axes(std::back_insert_iterator<std::string> out, const Axis& x, const Axis& y) {
  fmt::format_to(out, "{}\n<g class=\"end\"><text x=\"{}\" y=\"{}\">ranks</text></g>\n<g class=\"mid\">",
                 horizontal_ticks(y, kChartLeft, kChartRight, " %"), coordinate(kChartRight),
                 coordinate(kChartBottom + 38));
  const auto label = [&](double ranks) {
    fmt::format_to(out, "<text x=\"{}\" y=\"{}\">{}</text>", coordinate(x.at(ranks)), coordinate(kChartBottom + 20),
                   number(ranks, 6));
  };
  // Powers of two with room between them, then the end of the axis.
  const double most = x.config().high;
  double free_from = kChartLeft;
  for (double ranks = 1; ranks < most; ranks *= 2)
    if (x.at(ranks) >= free_from && x.at(ranks) + kChartLabel <= x.at(most)) {
      label(ranks);
      free_from = x.at(ranks) + kChartLabel;
    }
  label(most);
  fmt::format_to(out, "</g>\n");
}

}  // namespace

std::string draw_efficiency(const EfficiencyDrawing& drawing) {
  double most_ranks = 1, most = 100;
  for (const EfficiencyCurve& curve : drawing.curves)
    for (const EfficiencyPoint& point : curve.points) {
      most_ranks = std::max(most_ranks, point.ranks);
      most = std::max(most, 100 * point.efficiency);
    }
  const Axis x({.low = 1, .high = std::max(2.0, most_ranks), .from = kChartLeft, .to = kChartRight, .log = true});
  const Axis y({.low = 0, .high = most, .from = kChartBottom, .to = kChartTop, .round = true});

  std::string text;
  const auto out = std::back_inserter(text);
  fmt::format_to(out,
                 "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" height=\"{1}\" "
                 "role=\"img\" aria-label=\"efficiency over ranks\">\n<style>{2}</style>\n",
                 kChartWidth, kChartHeight, kChartStyle);
  fmt::format_to(out, "<text class=\"head\" x=\"24\" y=\"32\">{}</text>\n<text x=\"24\" y=\"52\">{}</text>\n",
                 label_html("Efficiency of " + drawing.title, kMostTitle), html(drawing.subtitle));
  draw_chart_axes(out, x, y);
  for (size_t c = 0; c < drawing.curves.size(); ++c) {
    const EfficiencyCurve& curve = drawing.curves[c];
    fmt::format_to(out, "<g class=\"s{}\"><polyline class=\"line\" points=\"", c);
    for (const EfficiencyPoint& point : curve.points)
      fmt::format_to(out, "{},{} ", coordinate(x.at(point.ranks)), coordinate(y.at(100 * point.efficiency)));
    fmt::format_to(out, "\"/>");
    for (const EfficiencyPoint& point : curve.points)
      fmt::format_to(out,
                     "<circle class=\"dot\" cx=\"{}\" cy=\"{}\" r=\"3\"><title>{}, {} ranks: {:.1f} %</title></circle>",
                     coordinate(x.at(point.ranks)), coordinate(y.at(100 * point.efficiency)), html(curve.name),
                     number(point.ranks, 6), 100 * point.efficiency);
    const double at = kChartLeft + 110 * static_cast<double>(c);
    fmt::format_to(out, "<path class=\"line\" d=\"M{} {}h18\"/></g><text x=\"{}\" y=\"{}\">{}</text>\n", coordinate(at),
                   coordinate(kChartBottom + 34), coordinate(at + 24), coordinate(kChartBottom + 38), html(curve.name));
  }
  return text + "</svg>\n";
}

}  // namespace ddp::report
