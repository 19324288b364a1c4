#include "comm/clock_offset.h"

#include "tests/comm/ranks.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <random>

namespace ddp {
namespace {

// Barriers of two ranks whose clocks differ by `offset`. The last rank to enter leaves at once, the other after
// `delay`.
TEST(ClockOffset, IsWithinHalfOfTheFastestCrossings) {
  constexpr int64_t kOffset = 5'000'000'000'000;  // what to add to the second rank's clock
  std::mt19937_64 random(1);
  std::uniform_int_distribution<int64_t> late(0, 200'000), crossing(20'000, 900'000);
  std::vector<BarrierTimes> rank0, rank1;
  int64_t fastest_to_0 = 1'000'000, fastest_to_1 = 1'000'000, now = 1'000'000'000;
  for (int i = 0; i < 60; ++i, now += 10'000'000) {
    const int64_t entered0 = now + late(random), entered1 = now + late(random);
    const int64_t to_0 = crossing(random), to_1 = crossing(random);
    const int64_t left0 = std::max(entered0, entered1 + to_0), left1 = std::max(entered1, entered0 + to_1);
    rank0.push_back({entered0, left0});
    rank1.push_back({entered1 - kOffset, left1 - kOffset});
    fastest_to_0 = std::min(fastest_to_0, left0 - entered1);
    fastest_to_1 = std::min(fastest_to_1, left1 - entered0);
  }
  const RankClock clock = clock_offset(rank0, rank1);
  const int64_t error = std::abs(clock.offset_ns - kOffset);
  EXPECT_LE(error, clock.error_ns);
  EXPECT_LE(clock.error_ns, (fastest_to_0 + fastest_to_1 + 1) / 2);
  EXPECT_LE(error, (fastest_to_0 + fastest_to_1) / 2);
  EXPECT_LT(error, 100'000);
  EXPECT_EQ(clock_offset(rank0, rank0).offset_ns, 0);
}

TEST(ClockOffset, IsExactBetweenClocksThatStandStill) {
  run_ranks(3, [](Communicator& ranks) {
    const RankClocks clocks = compare_clocks(ranks, [&] { return 1'000'000 + 5000 * ranks.rank(); });
    EXPECT_EQ(clocks.rank0_ns, 1'000'000);
    ASSERT_EQ(clocks.ranks.size(), 3u);
    for (int rank = 0; rank < 3; ++rank) EXPECT_EQ(clocks.ranks[rank].offset_ns, -5000 * rank) << rank;
    for (const RankClock& rank : clocks.ranks) EXPECT_EQ(rank.error_ns, 0);
  });
}

}  // namespace
}  // namespace ddp
