// The loss over a growing learning rate, and what it suggests: the range test of L. N. Smith, "Cyclical Learning Rates
// for Training Neural Networks" (2017). Range, smoothing, stop and both candidates are those of fastai's lr_find.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace ddp {

struct LrRange {
  int64_t steps = 100;  // at least 2
  double from = 1e-7, to = 10;
};

// The rate of a step, from 0: from * (to / from)^(step / (steps - 1)).
double lr_of_step(const LrRange& range, int64_t step);

struct LrPoint {
  double lr = 0, loss = 0;
  double smoothed = 0;  // s / (1 - 0.98^n) after n losses, with s <- 0.98 s + 0.02 loss
};

class LrCurve {
 public:
  static constexpr double kBeta = 0.98, kMostRise = 4;

  // Returns false where the test ends: the loss is not finite, or the smoothed loss is above kMostRise times its least
  // value. The curve does not get this point.
  bool add(double lr, double loss);

  const std::vector<LrPoint>& points() const { return points_; }

 private:
  std::vector<LrPoint> points_;
  double sum_ = 0, weight_ = 1, least_ = 0;
};

struct LrSuggestion {
  double lr = 0;        // the lower one of the two candidates
  double steepest = 0;  // where the smoothed loss falls most for a factor of the rate
  double tenth = 0;     // a tenth of the rate with the least smoothed loss
  bool at_end = false;  // the least smoothed loss is that of the last point: the range ends too early
};

// Neither candidate lies in the first tenth of `steps`, where the smoothed loss is the mean of a few. None where the
// smoothed loss never falls by more than kNoise standard deviations of the losses of this tenth: noise alone falls so
// far in one of a thousand tests. `steps`: of the whole range.
inline constexpr double kNoise = 1.5;
std::optional<LrSuggestion> suggest_lr(std::span<const LrPoint> points, int64_t steps);

}  // namespace ddp
