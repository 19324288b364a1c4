// An axis of a plot: where a value lies, and which values have a tick.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ddp::report {

class Axis {
 public:
  // Shows at least `low` to `high`, from the coordinate `from` to `to`. With `log`, `low` is above 0. About `ticks`
  // ticks at multiples of 1, 2 or 5 times a power of ten; with `whole`, at whole numbers only. With `round`, the axis
  // ends at ticks.
  struct Config {
    double low = 0, high = 1, from = 0, to = 1;
    int ticks = 5;
    bool log = false, whole = false, round = false;
  };
  explicit Axis(const Config& config);

  double at(double value) const;  // coordinate
  const std::vector<double>& ticks() const { return ticks_; }
  const Config& config() const { return config_; }

  static std::string label(double tick);  // such as "0.05", "2,000" or "20k"

 private:
  void choose_linear_ticks();
  void choose_log_ticks();

  Config config_;
  std::vector<double> ticks_;
};

// SVG: a line from `left` to `right` at each tick of a vertical axis, and its text before `left`, with `unit` after the
// number.
std::string horizontal_ticks(const Axis& y, double left, double right, std::string_view unit = "");

// SVG: a line from `top` to `bottom` at each tick of a horizontal axis, and its text at `label`.
std::string vertical_ticks(const Axis& x, double top, double bottom, double label);

}  // namespace ddp::report
