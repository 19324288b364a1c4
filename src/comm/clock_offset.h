// The offsets between the clocks of the ranks' hosts, from the times around barriers.
//
// No rank leaves a barrier before all ranks have entered it. With o = what to add to a rank's clock to get rank 0's:
//   the rank entered before rank 0 left:  entered + o <= left of rank 0
//   rank 0 entered before the rank left:  entered of rank 0 <= left + o
// Each barrier gives both bounds; the offset is the middle of the tightest ones. So the error is at most half of the
// time of the two fastest crossings.
#pragma once

#include "comm/communicator.h"
#include "core/stopwatch.h"

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace ddp {

struct BarrierTimes {  // ns
  int64_t entered = 0, left = 0;
};

struct RankClock {
  int64_t offset_ns = 0;  // what to add to the rank's clock to get rank 0's
  int64_t error_ns = 0;   // the largest error of the offset
};

// Times of the same barriers at rank 0 and at another rank; at least one.
RankClock clock_offset(std::span<const BarrierTimes> rank0, std::span<const BarrierTimes> rank);

struct RankClocks {
  int64_t rank0_ns = 0;  // rank 0's clock at the measurement
  std::vector<RankClock> ranks;
};

// Runs some barriers. Every rank gets all offsets. `clock`: in ns. Collective, between steps.
RankClocks compare_clocks(Communicator& communicator, const std::function<int64_t()>& clock = steady_ns);

}  // namespace ddp
