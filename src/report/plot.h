// A plot of curves, as a rule over the steps, as HTML: a figure with an SVG drawing, and a line that shows the values
// under the pointer (page.js).
#pragma once

#include "report/curve.h"

#include <string>
#include <vector>

namespace ddp::report {

struct Series {
  std::string name;  // any text
  int colour = 0;    // of the run, or of the quantity if there is one run: 0 to kColours - 1
  std::vector<CurvePoint> points;
  bool dots = false;   // a dot at each point, if they are few
  bool faint = false;  // a thin line, for the other one of two curves in one colour
};

// A line from top to bottom, which shows its text under the pointer.
struct Mark {
  double x = 0;
  std::string text;  // any text
  int colour = 0;
};

struct Plot {
  static constexpr int kColours = 12;  // six colours; from the sixth on they are dashed

  std::string id, title, unit;   // unit: of the values; may be empty
  std::string x_name = "step";   // such as "step" or "epoch"
  bool from_zero = false;        // the axis of the values begins at 0
  bool may_be_log = false;       // a logarithmic axis where values differ by more than 1,000 times
  bool log_x = false;            // a logarithmic horizontal axis; all x are above 0
  std::string note;              // below the title; may be empty
  std::vector<Series> series;    // those without points are left out
  std::vector<Mark> marks = {};  // those outside of the axis are left out
};

// Empty where no series has a point.
std::string draw(const Plot& plot);

}  // namespace ddp::report
