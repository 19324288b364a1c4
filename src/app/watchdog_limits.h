// The time limits of the watchdog.
#pragma once

#include "train/diagnosis.h"

#include <optional>

namespace ddp {

// `step_timeout`: --step-timeout in seconds, 0 for no limit; none: automatic. It also limits start-up and saves where
// it is longer than their own limits.
WatchdogLimits limits_of(std::optional<double> step_timeout, int rank);

}  // namespace ddp
