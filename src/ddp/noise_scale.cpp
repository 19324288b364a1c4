#include "ddp/noise_scale.h"

#include <cmath>

namespace ddp {

double noise_scale(const GradientSquares& squares, double batch) {
  const auto& [parts, whole, share, noise] = squares;
  const double gradient = (noise * whole - parts) / (noise - share), per_step = whole - gradient;
  const bool known =
      noise > share && gradient > 0 && per_step >= 0 && std::isfinite(gradient) && std::isfinite(per_step);
  return known ? batch * per_step / gradient : std::nan("");
}

}  // namespace ddp
