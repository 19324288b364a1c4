#include "app/run/largest_batch.h"

#include "core/error.h"

#include <algorithm>
#include <cmath>

namespace ddp {

int64_t unit_of_batches(int64_t most, int64_t parts) {
  constexpr int64_t kLanes = 8;
  for (const int64_t unit : {kLanes * parts, parts})
    if (unit <= most) return unit;
  return 1;
}

// In units: `low` fits, `high` does not. A guess is where the line through the last two points meets `available`; from
// the fourth on, every other guess is the middle, so that the interval shrinks whatever the memory does.
int64_t largest_batch(int64_t unit, int64_t most, int64_t available, const std::function<int64_t(int64_t)>& memory) {
  DDP_EXPECT(unit >= 1 && most >= 0);
  const auto bytes = [&](int64_t units) { return static_cast<double>(memory(units * unit)); };
  const auto limit = static_cast<double>(available);
  int64_t low = 1, high = most / unit + 1, last = 1;
  double at_last = high > 1 ? bytes(1) : 0;
  if (high == 1 || at_last > limit) return 0;
  double slope = 0;  // per unit
  for (int turn = 0; high - low > 1; ++turn) {
    const bool on_line = slope > 0 && (turn < 3 || turn % 2 == 0);
    const double far = static_cast<double>(high - last), near = static_cast<double>(low - last);
    int64_t guess = turn == 0 ? 2 : low + (high - low) / 2;
    if (on_line) guess = last + static_cast<int64_t>(std::floor(std::clamp((limit - at_last) / slope, near, far)));
    guess = std::clamp(guess, low + 1, high - 1);
    const double at_guess = bytes(guess);
    slope = (at_guess - at_last) / static_cast<double>(guess - last);
    last = guess;
    at_last = at_guess;
    (at_guess <= limit ? low : high) = guess;
  }
  return low * unit;
}

}  // namespace ddp
