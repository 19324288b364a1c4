#include "comm/clock_offset.h"

#include "core/error.h"

#include <algorithm>
#include <limits>

namespace ddp {
namespace {

constexpr size_t kBarriers = 60;  // after the first, which lets the ranks arrive

}  // namespace

RankClock clock_offset(std::span<const BarrierTimes> rank0, std::span<const BarrierTimes> rank) {
  DDP_EXPECT(!rank0.empty() && rank0.size() == rank.size());
  int64_t least = std::numeric_limits<int64_t>::min(), most = std::numeric_limits<int64_t>::max();
  for (size_t i = 0; i < rank.size(); ++i) {
    most = std::min(most, rank0[i].left - rank[i].entered);
    least = std::max(least, rank0[i].entered - rank[i].left);
  }
  return {.offset_ns = least + (most - least) / 2, .error_ns = (most - least + 1) / 2};
}

// A double holds the nanoseconds of 104 days exactly. It rounds a longer uptime to 2 ns, and the wall clock to 256 ns;
// error_ns leaves this out.
RankClocks compare_clocks(Communicator& communicator, const std::function<int64_t()>& clock) {
  const auto ranks = static_cast<size_t>(communicator.size()), mine = static_cast<size_t>(communicator.rank());
  std::vector<double> times(2 * kBarriers * ranks);
  communicator.barrier();
  for (size_t i = 0; i < kBarriers; ++i) {
    double* const at = &times[2 * (mine * kBarriers + i)];
    at[0] = static_cast<double>(clock());
    communicator.barrier();
    at[1] = static_cast<double>(clock());
  }
  communicator.all_reduce_host(times);

  std::vector<BarrierTimes> barriers;
  for (size_t i = 0; i < times.size(); i += 2)
    barriers.push_back({.entered = static_cast<int64_t>(times[i]), .left = static_cast<int64_t>(times[i + 1])});
  const std::span all(barriers);
  RankClocks clocks{.rank0_ns = all[kBarriers - 1].left, .ranks = {}};
  for (size_t rank = 0; rank < ranks; ++rank)
    clocks.ranks.push_back(clock_offset(all.first(kBarriers), all.subspan(rank * kBarriers, kBarriers)));
  return clocks;
}

}  // namespace ddp
