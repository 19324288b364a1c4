#include "train/range_test/lr_curve.h"

#include "core/error.h"

#include <algorithm>
#include <cmath>

namespace ddp {

double lr_of_step(const LrRange& range, int64_t step) {
  DDP_EXPECT(range.steps >= 2 && range.from > 0 && range.to > range.from);
  const double share = static_cast<double>(step) / static_cast<double>(range.steps - 1);
  return range.from * std::pow(range.to / range.from, share);
}

bool LrCurve::add(double lr, double loss) {
  sum_ = kBeta * sum_ + (1 - kBeta) * loss;
  weight_ *= kBeta;
  const double smoothed = sum_ / (1 - weight_);
  if (!std::isfinite(smoothed)) return false;
  if (!points_.empty() && smoothed > kMostRise * least_) return false;
  least_ = points_.empty() ? smoothed : std::min(least_, smoothed);
  points_.push_back({.lr = lr, .loss = loss, .smoothed = smoothed});
  return true;
}

namespace {

double deviation_of_losses(std::span<const LrPoint> points) {
  const auto count = static_cast<double>(points.size());
  double sum = 0, squares = 0;
  for (const LrPoint& point : points) sum += point.loss;
  for (const LrPoint& point : points) squares += (point.loss - sum / count) * (point.loss - sum / count);
  return std::sqrt(squares / (count - 1));
}

}  // namespace

std::optional<LrSuggestion> suggest_lr(std::span<const LrPoint> points, int64_t steps) {
  const auto first = static_cast<size_t>((steps + 9) / 10);
  if (points.size() < first + 2) return std::nullopt;
  const auto least = std::ranges::min_element(points.subspan(first), {}, &LrPoint::smoothed);
  const auto end = static_cast<size_t>(least - points.subspan(first).begin()) + first;
  const double noise = deviation_of_losses(points.first(first + 1)), start = points[first].smoothed;
  if (!(start - least->smoothed > std::max(kNoise * noise, 1e-6 * start))) return std::nullopt;

  size_t steepest = first;  // the rates grow by one factor, so the difference of two steps is the slope
  double slope = 0;
  for (size_t i = first; i < end; ++i)
    if (const double difference = points[i + 1].smoothed - points[i].smoothed; difference < slope) {
      slope = difference;
      steepest = i;
    }
  const double tenth = least->lr / 10, at_steepest = points[steepest].lr;
  return LrSuggestion{
      .lr = std::min(tenth, at_steepest), .steepest = at_steepest, .tenth = tenth, .at_end = end + 1 == points.size()};
}

}  // namespace ddp
