#include "ddp/fit_link.h"

#include "core/error.h"

namespace ddp {

// Least squares with the weights 1 / ms^2. Where a cost would be negative, it is 0 and the other one is fitted alone.
LinkCost fit_link(std::span<const TimedCollective> collectives) {
  DDP_EXPECT(!collectives.empty());
  double w = 0, wx = 0, wxx = 0, wt = 0, wxt = 0;
  for (const auto& [elements, ms] : collectives) {
    DDP_EXPECT(ms > 0 && elements >= 0);
    const double weight = 1 / (ms * ms), mib = static_cast<double>(elements) * 4 / (1 << 20);
    w += weight;
    wx += weight * mib;
    wxx += weight * mib * mib;
    wt += weight * ms;
    wxt += weight * mib * ms;
  }
  const double spread = w * wxx - wx * wx;  // 0: one size only
  const double slope = spread > 1e-12 * w * wxx ? (w * wxt - wx * wt) / spread : 0;
  const double latency = (wt - slope * wx) / w;
  if (slope <= 0) return {.latency_ms = wt / w, .ms_per_mib = 0};
  if (latency < 0) return {.latency_ms = 0, .ms_per_mib = wxt / wxx};
  return {.latency_ms = latency, .ms_per_mib = slope};
}

}  // namespace ddp
