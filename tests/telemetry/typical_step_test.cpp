#include "telemetry/typical_step.h"

#include <gtest/gtest.h>

namespace ddp {
namespace {

Span span(Track track, const char* name, int64_t begin, int64_t end, int64_t step) {
  return {.track = track, .name = name, .begin_ns = begin, .end_ns = end, .number = step};
}

// Steps 11, 12 and 13 take 50, 90 and 70 on the slower rank; rank 1 does not have step 14.
TEST(TypicalStep, IsTheStepOfTheMedianDuration) {
  std::vector<std::vector<Span>> ranks(2);
  const std::vector<std::pair<int64_t, int64_t>> steps{{100, 50}, {200, 90}, {300, 70}, {400, 1}};
  for (size_t i = 0; i < steps.size(); ++i) {
    const auto [begin, duration] = steps[i];
    const auto step = static_cast<int64_t>(11 + i);
    ranks[0].push_back(span(Track::step, "data", begin, begin + 10, step));
    ranks[0].push_back(span(Track::step, "compute", begin + 10, begin + duration / 2, step));
    if (i < 3) ranks[1].push_back(span(Track::buckets, "bucket 0", begin + 20, begin + duration, step));
  }
  const auto timeline = typical_step(ranks);
  ASSERT_TRUE(timeline);
  EXPECT_EQ(timeline->step, 13);
  EXPECT_EQ(timeline->duration_ns, 70);
  ASSERT_EQ(timeline->ranks.size(), 2u);
  ASSERT_EQ(timeline->ranks[0].size(), 2u);
  EXPECT_EQ(timeline->ranks[0][0].begin_ns, 0);
  EXPECT_EQ(timeline->ranks[0][1].end_ns, 35);
  ASSERT_EQ(timeline->ranks[1].size(), 1u);
  EXPECT_EQ(timeline->ranks[1][0].begin_ns, 20);
  EXPECT_EQ(timeline->ranks[1][0].end_ns, 70);
}

TEST(TypicalStep, IsNoneWithoutAStepOfAllRanks) {
  std::vector<std::vector<Span>> ranks(2);
  EXPECT_FALSE(typical_step(ranks));
  ranks[0].push_back(span(Track::step, "data", 0, 1, 5));
  ranks[1].push_back(span(Track::step, "data", 0, 1, 6));
  EXPECT_FALSE(typical_step(ranks));
}

TEST(TypicalStep, ShowsPhasesPassesAndBuckets) {
  EXPECT_TRUE(in_timeline(span(Track::step, "allreduce", 0, 1, 1)));
  EXPECT_FALSE(in_timeline(span(Track::step, "device", 0, 1, 1)));
  EXPECT_FALSE(in_timeline(span(Track::step, "saving", 0, 1, 1)));
  EXPECT_TRUE(in_timeline(span(Track::layers, "backward", 0, 1, 1)));
  EXPECT_FALSE(in_timeline(span(Track::layers, "0 conv2d", 0, 1, 1)));
  EXPECT_TRUE(in_timeline(span(Track::buckets, "bucket 2", 0, 1, 1)));
  EXPECT_FALSE(in_timeline(span(Track::loader, "read batch", 0, 1, 1)));
}

}  // namespace
}  // namespace ddp
