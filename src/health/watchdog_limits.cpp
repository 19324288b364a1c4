#include "health/watchdog_limits.h"

#include "health/abort.h"

#include <algorithm>
#include <chrono>
#include <cmath>

namespace ddp {

WatchdogLimits limits_of(std::optional<double> step_timeout, int rank) {
  WatchdogLimits limits;
  if (step_timeout) {
    const auto asked = std::chrono::milliseconds(std::llround(std::ceil(1e3 * *step_timeout)));
    limits.step = asked;
    for (auto* const limit : {&limits.start_up, &limits.saving})
      *limit = asked.count() == 0 ? asked : std::max(*limit, asked);
  }
  limits.report_delay = report_delay(rank);
  return limits;
}

}  // namespace ddp
