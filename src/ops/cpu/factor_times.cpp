#include "ops/cpu/factor_times.h"

#include <algorithm>
#include <limits>

namespace ddp {

void FactorTimes::add(const MeasuredPass& pass) {
  constexpr double kNone = std::numeric_limits<double>::infinity();
  for (const bool ours : {false, true}) {
    std::array<double, 2> least{kNone, kNone};
    for (const auto& [number, microseconds, cold] : pass.algorithms) {
      const ConvAlgorithm algorithm = *ConvAlgorithm::of(number);
      double& of = least[algorithm.widen];
      if (!cold && algorithm.has_our_outputs() == ours) of = std::min(of, microseconds);
    }
    if (std::ranges::max(least) == kNone) continue;
    for (const size_t widen : {0, 1}) sums_[ours][widen] += least[widen];
  }
}

FasterFactors FactorTimes::faster() const {
  constexpr double kMuch = 1.5;
  FasterFactors faster;
  for (const size_t ours : {0, 1}) {
    const auto& of = sums_[ours];
    if (std::ranges::max(of) > kMuch * std::ranges::min(of)) faster[ours] = of[1] < of[0];
  }
  return faster;
}

int64_t FactorTimes::guess(const std::vector<ConvAlgorithm>& algorithms) const {
  if (algorithms.empty()) return 0;
  const bool ours = algorithms[0].has_our_outputs();
  const auto widen = faster()[ours];
  for (const ConvAlgorithm& algorithm : algorithms)
    if (algorithm.has_our_outputs() == ours && algorithm.widen == widen) return algorithm.number();
  return 0;
}

}  // namespace ddp
