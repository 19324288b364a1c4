#include "train/observers/compute_times.h"

#include "tests/train/small.h"
#include "tests/train/world.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace ddp::testing {
namespace {

StepResult step_of(double compute, int64_t samples = 8) {
  StepResult step;
  step.samples = samples;
  step.times = {.data = 0.5, .compute = compute};
  return step;
}

TEST(ComputeTimes, AreThoseOfFullSteps) {
  ComputeTimes times(8);
  for (const double ms : {100.0, 90.0, 1.0, 2.0}) times.add(step_of(ms));
  times.add(step_of(3, 5));  // the last step of an epoch
  StepResult bad = step_of(4);
  bad.skipped = "NaN";
  times.add(bad);
  times.add(step_of(5));
  EXPECT_EQ(times.ms(), (std::vector<double>{1, 2, 5}));
  EXPECT_EQ(times.mean_data_ms(), 0.5);
}

TEST(ComputeTimes, OfALongRunAreEquallyDistant) {
  ComputeTimes times(8);
  const auto most = static_cast<int>(ComputeTimes::kMost);
  for (int i = 0; i < 2 + 5 * most; ++i) times.add(step_of(i - 1));
  EXPECT_GT(times.ms().size(), ComputeTimes::kMost / 2);
  EXPECT_LE(times.ms().size(), ComputeTimes::kMost);
  for (size_t i = 0; i < times.ms().size(); ++i) EXPECT_EQ(times.ms()[i], 1 + 8 * static_cast<double>(i));
}

// Rank 1 is three times as slow, with the same spread; rank 2 has no samples.
TEST(ComputeTimes, SpreadOverRanksIsRelativeToEach) {
  run_world(3, [&](Communicator& rank, Device&, Ops&) {
    std::vector<double> mine;
    for (int i = 1; rank.rank() < 2 && i <= 99; ++i) mine.push_back((rank.rank() == 1 ? 3 : 1) * (i == 99 ? 500 : i));
    const auto spread = spread_over_ranks(mine, rank);
    ASSERT_TRUE(spread);
    EXPECT_EQ(spread->median_ms, 150);
    EXPECT_EQ(spread->spread.front().value, 1.0 / 50);
    EXPECT_EQ(spread->spread.back().value, 500.0 / 50);
    EXPECT_NEAR(value_at(spread->spread, 0.5), 1, 0.02);
    EXPECT_FALSE(spread_over_ranks({}, rank));
  });
}

}  // namespace
}  // namespace ddp::testing
