// The recent speed of a training, smoothed.
#pragma once

#include <cmath>
#include <cstdint>

namespace ddp {

class ProgressRate {
 public:
  // Steps that took this time, without evaluations. The mean is exponential: a weight halves in ten seconds.
  void add(int64_t steps, int64_t samples, double seconds) {
    constexpr double kHalf = 10;
    const double kept = std::exp2(-seconds / kHalf);
    steps_ = kept * steps_ + static_cast<double>(steps);
    samples_ = kept * samples_ + static_cast<double>(samples);
    seconds_ = kept * seconds_ + seconds;
  }

  // NaN: not known.
  double samples_per_second() const { return seconds_ > 0 ? samples_ / seconds_ : std::nan(""); }
  double seconds_of(int64_t steps) const {
    return steps_ > 0 ? static_cast<double>(steps) * seconds_ / steps_ : std::nan("");
  }

 private:
  double steps_ = 0, samples_ = 0, seconds_ = 0;
};

}  // namespace ddp
