#include "report/axis.h"

#include "report/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace ddp::report {

Axis::Axis(const Config& config) : config_(config) {
  if (config_.log)
    choose_log_ticks();
  else
    choose_linear_ticks();
}

void Axis::choose_linear_ticks() {
  double& low = config_.low;
  double& high = config_.high;
  if (!(high - low > 1e-9 * std::max(std::abs(high), std::abs(low)))) {  // one value, in the middle
    const double margin = config_.whole ? 1 : std::max(0.5 * std::abs(high), 1e-9);
    low -= margin;
    high += margin;
  }
  const double wanted = (high - low) / config_.ticks;
  double step = std::pow(10, std::floor(std::log10(wanted)));
  for (const double factor : {2.0, 2.5, 2.0})  // 1, 2, 5, 10
    if (step < wanted * 0.999) step *= factor;
  if (config_.whole) step = std::max(1.0, std::round(step));
  const double first = config_.round ? std::floor(low / step + 1e-6) : std::ceil(low / step - 1e-6);
  const double last = config_.round ? std::ceil(high / step - 1e-6) : std::floor(high / step + 1e-6);
  for (double i = first; i <= last && ticks_.size() < 50; ++i) ticks_.push_back(i == 0 ? 0 : i * step);
  if (config_.round && !ticks_.empty()) {
    low = std::min(low, ticks_.front());
    high = std::max(high, ticks_.back());
  }
}

void Axis::choose_log_ticks() {
  config_.high = std::max(config_.high, config_.low * 1.001);
  const double decades = std::log10(config_.high / config_.low);
  const double every = std::max(1.0, std::ceil(decades / config_.ticks));
  const double first = std::floor(std::log10(config_.low) + 1e-6);
  for (double e = first; e <= std::log10(config_.high) + 1e-6; e += every)
    for (const double factor : {1.0, 2.0, 5.0}) {
      const double tick = factor * std::pow(10, e);
      const bool shown = factor == 1 || decades < 1.5;
      if (shown && tick >= config_.low * 0.999 && tick <= config_.high * 1.001) ticks_.push_back(tick);
    }
}

double Axis::at(double value) const {
  const auto& [low, high, from, to, ticks, log, whole, round] = config_;
  const double share = log ? std::log(std::max(value, low) / low) / std::log(high / low) : (value - low) / (high - low);
  return from + (to - from) * share;
}

std::string Axis::label(double tick) {
  const double size = std::abs(tick);
  for (const auto& [unit, letter] : {std::pair(1e9, "G"), std::pair(1e6, "M"), std::pair(1e3, "k")})
    if (size >= 10 * unit || (unit > 1e3 && size >= unit)) return number(tick / unit, 3) + letter;
  return number(tick, 6);
}

std::string horizontal_ticks(const Axis& y, double left, double right, std::string_view unit) {
  std::string text = "<g class=\"grid\">";
  for (const double tick : y.ticks())
    text += fmt::format("<path d=\"M{} {}H{}\"/>", coordinate(left), coordinate(y.at(tick)), coordinate(right));
  text += "</g><g class=\"tick end\">";
  for (const double tick : y.ticks())
    text += fmt::format("<text x=\"{}\" y=\"{}\">{}{}</text>", coordinate(left - 8), coordinate(y.at(tick) + 4),
                        Axis::label(tick), unit);
  return text + "</g>";
}

std::string vertical_ticks(const Axis& x, double top, double bottom, double label) {
  std::string lines, texts;
  for (const double tick : x.ticks()) {
    const std::string at = coordinate(x.at(tick));
    lines += fmt::format("<path d=\"M{} {}V{}\"/>", at, coordinate(top), coordinate(bottom));
    texts += fmt::format("<text x=\"{}\" y=\"{}\">{}</text>", at, coordinate(label), Axis::label(tick));
  }
  return fmt::format("<g class=\"grid\">{}</g><g class=\"tick mid\">{}</g>", lines, texts);
}

}  // namespace ddp::report
