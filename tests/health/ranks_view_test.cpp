#include "health/ranks_view.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace ddp::testing {
namespace {

using namespace std::chrono_literals;

constexpr int64_t kMoment = 1'000'000'000'000;
int64_t before(double seconds) { return kMoment - static_cast<int64_t>(seconds * 1e9); }

RankView running() {
  return {.rank = 3,
          .host = "b",
          .heartbeat = {.step = 812,
                        .phase = static_cast<int32_t>(Phase::allreduce),
                        .since_ns = before(5),
                        .alive_ns = before(0.1)},
          .heard_ns = before(0.1)};
}

RankStatus status(const RankView& view, const WatchdogLimits& limits = {.step = 6s}) {
  const auto all = ranks_view({&view, 1}, limits, 0ns, kMoment);
  EXPECT_EQ(all.size(), 1u);
  return all.at(0);
}

TEST(RanksView, ShowsARunningRank) {
  const RankStatus rank = status(running());
  EXPECT_EQ(rank.rank, 3);
  EXPECT_EQ(rank.host, "b");
  EXPECT_EQ(rank.phase, Phase::allreduce);
  EXPECT_EQ(rank.step, 812);
  EXPECT_NEAR(rank.phase_seconds, 5, 1e-6);
  ASSERT_TRUE(rank.silent_seconds);
  EXPECT_NEAR(*rank.silent_seconds, 0.1, 1e-6);
  EXPECT_STREQ(key_of(rank.state), "running");
}

TEST(RanksView, NamesWhatIsWrong) {
  const auto state = [](auto change) {
    RankView view = running();
    change(view);
    return std::string(key_of(status(view).state));
  };
  EXPECT_EQ(state([](RankView& v) { v.heartbeat.since_ns = before(7); }), "late");
  EXPECT_EQ(state([](RankView& v) { v.heartbeat.alive_ns = before(4), v.heard_ns = kMoment; }), "stopped");
  EXPECT_EQ(state([](RankView& v) { v.heartbeat.alive_ns = v.heard_ns = before(4); }), "unreachable");
  EXPECT_EQ(state([](RankView& v) { v.heartbeat.alive_ns = v.heard_ns = before(100); }), "unreachable");
  EXPECT_EQ(state([](RankView& v) { v.dead = true, v.heartbeat.alive_ns = before(100); }), "dead");
  EXPECT_EQ(state([](RankView& v) { v.left = true, v.heartbeat.alive_ns = before(100); }), "ended");
  EXPECT_EQ(state([](RankView& v) { v.heartbeat = {}; }), "unknown");
}

TEST(RanksView, TheLimitIsThatOfTheWatchdog) {
  RankView view = running();
  view.heartbeat.since_ns = before(100);
  EXPECT_STREQ(key_of(status(view, {.step = 0s}).state), "running");  // no limit
  const auto with_steps_of = [&](std::chrono::nanoseconds slowest) {
    return std::string(key_of(ranks_view({&view, 1}, {}, slowest, kMoment).at(0).state));
  };
  EXPECT_EQ(with_steps_of(1s), "late");
  EXPECT_EQ(with_steps_of(6s), "running");
}

TEST(RanksView, AllRunOnlyIfEachDoes) {
  RankView late = running();
  late.heartbeat.since_ns = before(7);
  const std::vector<RankView> good{running(), running()}, bad{running(), late};
  EXPECT_TRUE(all_run(ranks_view(good, {.step = 6s}, 0ns, kMoment)));
  EXPECT_FALSE(all_run(ranks_view(bad, {.step = 6s}, 0ns, kMoment)));
}

}  // namespace
}  // namespace ddp::testing
