#include "ddp/quantiles.h"

#include "core/error.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace ddp {
namespace {

constexpr std::array kShares{0.0,  0.05, 0.1,  0.2,   0.3,   0.4,   0.5,    0.6,    0.7,    0.8, 0.9,
                             0.95, 0.98, 0.99, 0.995, 0.998, 0.999, 0.9995, 0.9998, 0.9999, 1.0};

}  // namespace

std::vector<Quantile> quantiles_of(std::vector<double> values) {
  DDP_EXPECT(!values.empty());
  std::ranges::sort(values);
  std::vector<Quantile> quantiles;
  for (const double share : kShares) {
    const double place = share * static_cast<double>(values.size() - 1);
    const auto below = static_cast<size_t>(place), above = std::min(below + 1, values.size() - 1);
    quantiles.push_back(
        {.share = share, .value = std::lerp(values[below], values[above], place - static_cast<double>(below))});
  }
  return quantiles;
}

double value_at(std::span<const Quantile> quantiles, double share) {
  DDP_EXPECT(quantiles.size() >= 2);
  const auto above = std::ranges::upper_bound(quantiles, share, {}, &Quantile::share);
  if (above == quantiles.begin()) return quantiles.front().value;
  if (above == quantiles.end()) return quantiles.back().value;
  const Quantile &low = above[-1], &high = *above;
  return std::lerp(low.value, high.value, (share - low.share) / (high.share - low.share));
}

// On a piece with Q(u) = a + slope * u, the integral of Q(u) * n * u^(n-1) is a * u^n + slope * n / (n+1) * u^(n+1).
double expected_maximum(std::span<const Quantile> quantiles, double draws) {
  DDP_EXPECT(quantiles.size() >= 2 && draws >= 1);
  double sum = 0;
  for (size_t i = 1; i < quantiles.size(); ++i) {
    const Quantile &low = quantiles[i - 1], &high = quantiles[i];
    const double slope = (high.value - low.value) / (high.share - low.share), a = low.value - slope * low.share;
    const auto integral = [&](double u) {
      return a * std::pow(u, draws) + slope * draws / (draws + 1) * std::pow(u, draws + 1);
    };
    sum += integral(high.share) - integral(low.share);
  }
  return sum;
}

}  // namespace ddp
