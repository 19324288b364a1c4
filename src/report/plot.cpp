#include "report/plot.h"

#include "report/axis.h"
#include "report/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

namespace ddp::report {
namespace {

using Out = std::back_insert_iterator<std::string>;

constexpr double kPlotWidth = 480, kPlotHeight = 250, kPlotLeft = 58, kPlotRight = 470, kPlotTop = 12,
                 kPlotBottom = 212;
constexpr size_t kPlotMostDots = 60;

struct Range {
  double low = 0, high = 0;
  bool some = false;
  void add(double value) {
    low = some ? std::min(low, value) : value;
    high = some ? std::max(high, value) : value;
    some = true;
  }
};

Axis make_x_axis(const Plot& plot) {
  Range x;
  for (const Series& series : plot.series)
    for (const CurvePoint& point : series.points) x.add(point.x);
  if (plot.log_x)
    return Axis({.low = x.low, .high = x.high, .from = kPlotLeft, .to = kPlotRight, .ticks = 9, .log = true});
  return Axis({.low = std::min(x.low, x.high > 0 ? 0.0 : x.low),
               .high = x.high,
               .from = kPlotLeft,
               .to = kPlotRight,
               .ticks = 5,
               .whole = true});
}

Axis make_y_axis(const Plot& plot) {
  Range y;
  for (const Series& series : plot.series)
    for (const CurvePoint& point : series.points) y.add(point.y);
  const bool log = plot.may_be_log && y.low > 0 && y.high > 1000 * y.low;
  if (!log && (plot.from_zero || (y.low > 0 && y.low < 0.4 * y.high))) y.add(0);
  return Axis(
      {.low = y.low, .high = y.high, .from = kPlotBottom, .to = kPlotTop, .ticks = 4, .log = log, .round = true});
}

void draw_axes(Out out, const Plot& plot, const Axis& x, const Axis& y) {
  fmt::format_to(out, "{}<g class=\"tick mid\">", horizontal_ticks(y, kPlotLeft, kPlotRight));
  for (const double tick : x.ticks())
    fmt::format_to(out, "<text x=\"{}\" y=\"{}\">{}</text>", coordinate(x.at(tick)), coordinate(kPlotBottom + 18),
                   Axis::label(tick));
  fmt::format_to(out, "</g><g class=\"tick end\"><text x=\"{}\" y=\"{}\">{}</text></g>", coordinate(kPlotRight),
                 coordinate(kPlotHeight - 4), plot.x_name);
}

void draw_series(Out out, const Series& series, const Axis& x, const Axis& y, bool band) {
  const std::string kind = fmt::format("s{}{}", series.colour, series.faint ? " faint" : "");
  const auto& points = series.points;
  const bool ranges = std::ranges::any_of(points, [](const CurvePoint& p) { return p.low < p.high; });
  const auto cut = [&](double value) { return coordinate(y.at(std::clamp(value, y.config().low, y.config().high))); };
  if (band && ranges) {
    fmt::format_to(out, "<polygon class=\"band {}\" points=\"", kind);
    for (const CurvePoint& p : points) fmt::format_to(out, "{},{} ", coordinate(x.at(p.x)), cut(p.high));
    for (auto p = points.rbegin(); p != points.rend(); ++p)
      fmt::format_to(out, "{},{} ", coordinate(x.at(p->x)), cut(p->low));
    fmt::format_to(out, "\"/>");
  }
  fmt::format_to(out, "<polyline class=\"line {}\" points=\"", kind);
  for (const CurvePoint& p : points) fmt::format_to(out, "{},{} ", coordinate(x.at(p.x)), coordinate(y.at(p.y)));
  fmt::format_to(out, "\"/>");
  if (points.size() > 1 && (!series.dots || points.size() > kPlotMostDots)) return;
  for (const CurvePoint& p : points)
    fmt::format_to(out, "<circle class=\"dot {}\" cx=\"{}\" cy=\"{}\" r=\"3\"/>", kind, coordinate(x.at(p.x)),
                   coordinate(y.at(p.y)));
}

void draw_marks(Out out, const Plot& plot, const Axis& x) {
  for (const Mark& mark : plot.marks)
    if (mark.x >= x.config().low && mark.x <= x.config().high)
      fmt::format_to(out, "<path class=\"change s{}\" d=\"M{} {}V{}\"><title>{}</title></path>", mark.colour,
                     coordinate(x.at(mark.x)), coordinate(kPlotTop), coordinate(kPlotBottom),
                     short_html(mark.text, 200));
}

constexpr int kStepDigits = 10;

void write_list(Out out, const char* name, const Series& series, double CurvePoint::*value, int digits = 5) {
  fmt::format_to(out, ",\"{}\":[", name);
  for (size_t i = 0; i < series.points.size(); ++i)
    fmt::format_to(out, "{}{}", i == 0 ? "" : ",", json_number(series.points[i].*value, digits));
  fmt::format_to(out, "]");
}

// The values for page.js.
void write_data(Out out, const Plot& plot, const Axis& x, const Axis& y) {
  fmt::format_to(out, "<script type=\"application/json\">{{\"name\":{},\"x\":[{},{},{},{},{}],\"y\":[{},{},{},{},{}]",
                 json_string(plot.x_name), json_number(x.config().low, kStepDigits),
                 json_number(x.config().high, kStepDigits), kPlotLeft, kPlotRight, x.config().log,
                 json_number(y.config().low), json_number(y.config().high), kPlotBottom, kPlotTop, y.config().log);
  fmt::format_to(out, ",\"series\":[");
  for (size_t i = 0; i < plot.series.size(); ++i) {
    const Series& series = plot.series[i];
    fmt::format_to(out, "{}{{\"name\":{},\"colour\":{}", i == 0 ? "" : ",", json_string(series.name), series.colour);
    write_list(out, "x", series, &CurvePoint::x, kStepDigits);
    write_list(out, "y", series, &CurvePoint::y);
    if (std::ranges::any_of(series.points, [](const CurvePoint& p) { return p.low < p.high; })) {
      write_list(out, "low", series, &CurvePoint::low);
      write_list(out, "high", series, &CurvePoint::high);
    }
    fmt::format_to(out, "}}");
  }
  fmt::format_to(out, "]}}</script>");
}

// The last values, which are shown until the pointer moves.
std::string last_values(const Plot& plot) {
  std::string text;
  for (const Series& series : plot.series)
    text += fmt::format("{}<span class=\"key s{}\"></span>{} {}", text.empty() ? "" : " ", series.colour,
                        short_html(series.name), number(series.points.back().y));
  return "last: " + text;
}

}  // namespace

std::string draw(const Plot& given) {
  Plot plot = given;
  std::erase_if(plot.series, [](const Series& series) { return series.points.empty(); });
  if (plot.series.empty()) return "";
  const Axis x = make_x_axis(plot), y = make_y_axis(plot);
  const bool bands = !plot.from_zero && plot.series.size() <= 4;
  std::string text;
  const Out out(text);
  const std::string title = html(plot.title);
  fmt::format_to(out, "<figure class=\"plot\" id=\"{}\"><figcaption><b>{}</b>{}</figcaption>", html(plot.id), title,
                 plot.unit.empty() ? "" : " <span>" + html(plot.unit) + "</span>");
  fmt::format_to(out, "<svg viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{}{}\">", kPlotWidth, kPlotHeight, title,
                 plot.unit.empty() ? "" : ", " + html(plot.unit));
  draw_axes(out, plot, x, y);
  draw_marks(out, plot, x);
  for (const Series& series : plot.series) draw_series(out, series, x, y, bands);
  fmt::format_to(out, "</svg><p class=\"readout\">{}</p>", last_values(plot));
  if (!plot.note.empty()) fmt::format_to(out, "<p class=\"note\">{}</p>", html(plot.note));
  write_data(out, plot, x, y);
  return text + "</figure>\n";
}

}  // namespace ddp::report
