// The time limits of the watchdog.
#pragma once

#include "health/diagnosis.h"

#include <optional>

namespace ddp {

// `step_timeout`: --step-timeout in seconds; 0: no limits; none: automatic. A time longer than the limits of start-up
// and of saves replaces these too.
WatchdogLimits limits_of(std::optional<double> step_timeout, int rank);

}  // namespace ddp
