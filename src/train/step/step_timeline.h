// When each part of one step ran, on all ranks.
#pragma once

#include "core/span_recorder.h"

#include <cstdint>
#include <vector>

namespace ddp {

struct StepTimeline {
  int64_t step = 0;
  std::vector<std::vector<Span>> ranks;  // times from the begin of the step, on one clock
  int64_t duration_ns = 0;               // until the last rank has ended the step
};

}  // namespace ddp
