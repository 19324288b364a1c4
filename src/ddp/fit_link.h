// The latency and the bandwidth of the link, from the times of collectives of several sizes: a pure function.
#pragma once

#include "ddp/step_costs.h"

#include <cstdint>
#include <span>

namespace ddp {

struct TimedCollective {
  int64_t elements = 0;  // f32
  double ms = 0;         // above 0
};

// The costs, none of them negative, whose squared relative errors have the least sum: a long collective counts no more
// than a short one. At least one collective; of a single size all of the time is latency.
LinkCost fit_link(std::span<const TimedCollective> collectives);

}  // namespace ddp
