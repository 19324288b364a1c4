#include "report/curve.h"

#include <algorithm>
#include <cmath>

namespace ddp::report {

Curve::Bin Curve::merged(const Bin& a, const Bin& b) {
  return {.x = b.x,
          .sum = a.sum + b.sum,
          .weight = a.weight + b.weight,
          .low = std::min(a.low, b.low),
          .high = std::max(a.high, b.high),
          .values = a.values + b.values};
}

void Curve::add(double x, double y, double weight) {
  if (!std::isfinite(x) || !std::isfinite(y) || !std::isfinite(weight) || weight <= 0) return;
  const Bin one{.x = x, .sum = weight * y, .weight = weight, .low = y, .high = y, .values = 1};
  if (!bins_.empty() && bins_.back().values < values_of_bin_) {
    bins_.back() = merged(bins_.back(), one);
    return;
  }
  if (bins_.size() == kMost) {
    for (size_t i = 0; i < kMost / 2; ++i) bins_[i] = merged(bins_[2 * i], bins_[2 * i + 1]);
    bins_.resize(kMost / 2);
    values_of_bin_ *= 2;
  }
  bins_.push_back(one);
}

double Curve::mean() const {
  double sum = 0, weight = 0;
  for (const Bin& bin : bins_) {
    sum += bin.sum;
    weight += bin.weight;
  }
  return sum / weight;
}

std::vector<CurvePoint> Curve::points() const {
  std::vector<CurvePoint> points;
  for (const Bin& bin : bins_)
    points.push_back({.x = bin.x, .y = bin.sum / bin.weight, .low = bin.low, .high = bin.high});
  return points;
}

}  // namespace ddp::report
