#include "train/step/plateau.h"

#include <algorithm>
#include <cmath>

namespace ddp {
namespace {

constexpr double kLeastReduction = 1e-8;  // a smaller one is left out

bool is_better(const PlateauDesc& desc, double metric, double best) {
  if (std::isnan(best)) return std::isfinite(metric);
  return desc.metric == PlateauDesc::Metric::loss ? metric < best * (1 - desc.threshold)
                                                  : metric > best * (desc.threshold + 1);
}

}  // namespace

void observe(const PlateauDesc& desc, double lr, double gamma, double min_lr, double metric, PlateauState& state) {
  if (is_better(desc, metric, state.best)) {
    state.best = metric;
    state.bad = 0;
  } else {
    ++state.bad;
  }
  if (state.cooldown > 0) {
    --state.cooldown;
    state.bad = 0;
  }
  if (state.bad <= desc.patience) return;
  state.bad = 0;
  state.cooldown = desc.cooldown;
  const double before = lr * state.factor, after = std::max(before * gamma, min_lr);
  if (before - after > kLeastReduction) state.factor = after / lr;
}

}  // namespace ddp
