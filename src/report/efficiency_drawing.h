// The drawing of the efficiency over the number of ranks as an SVG file.
#pragma once

#include <string>
#include <vector>

namespace ddp::report {

struct EfficiencyPoint {
  double ranks = 1;  // ascending in a curve, from 1 on
  double efficiency = 1;
};

struct EfficiencyCurve {
  std::string name;
  std::vector<EfficiencyPoint> points;
};

struct EfficiencyDrawing {
  std::string title, subtitle;  // any text
  std::vector<EfficiencyCurve> curves = {};
};

// One XML document with its own style, which needs no other file. The ranks have a logarithmic axis.
std::string draw_efficiency(const EfficiencyDrawing& drawing);

}  // namespace ddp::report
