// The heartbeats and the flight record of a rank.
#include "health/phase_tracker.h"

#include "comm/local/heartbeat_table.h"
#include "tests/health/fake_transport.h"
#include "tests/spans.h"
#include "tests/test_clock.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include <fstream>

namespace ddp::testing {
namespace {

using namespace std::chrono_literals;

struct Rank {
  std::vector<std::unique_ptr<HeartbeatTable>> tables = make_local_heartbeat_tables(2, {"a", "b"});
  PhaseTracker phases{*tables[0]};
  Heartbeat seen() const { return tables[1]->read(0); }
  Heartbeat counted() {
    phases.publish_collective();
    return seen();
  }
  void step(int64_t number) {
    phases.enter(Phase::data, number);
    phases.enter(Phase::allreduce, number);
    phases.step_ended(number);
  }
};

TEST(PhaseTracker, OthersSeeThePhase) {
  TestClock clock;
  Rank rank;
  EXPECT_EQ(rank.seen().phase, static_cast<int32_t>(Phase::start_up));
  const int64_t before = rank.seen().since_ns;
  clock.pass(5ns);
  rank.phases.enter(Phase::data, 17);
  EXPECT_EQ(rank.seen().phase, static_cast<int32_t>(Phase::data));
  EXPECT_EQ(rank.seen().step, 17);
  EXPECT_EQ(rank.seen().since_ns, before + 5);
  EXPECT_FALSE(rank.tables[1]->left(0));
  rank.tables[0]->leave();
  EXPECT_TRUE(rank.tables[1]->left(0));
}

TEST(PhaseTracker, RecordsPhasesAsSpans) {
  TestClock clock;
  Rank rank;
  RecordedSpans spans;
  rank.phases.enter(Phase::data, 1);
  {
    const PhaseTracker::Recording recording(rank.phases, &spans);
    spans.wanted = false;
    rank.phases.enter(Phase::compute, 1);
    clock.pass(7ns);
    spans.wanted = true;
    rank.phases.enter(Phase::allreduce, 1);
    rank.phases.enter(Phase::data, 2);
  }
  rank.phases.enter(Phase::compute, 2);
  const std::vector<Span> all = spans.all();
  ASSERT_EQ(all.size(), 2u);
  EXPECT_STREQ(all[0].name, "compute");
  EXPECT_STREQ(all[1].name, "allreduce");
  EXPECT_EQ(all[0].end_ns, all[1].begin_ns);
  EXPECT_EQ(all[0].begin_ns + 7, all[0].end_ns);
  EXPECT_EQ(all[1].number, 1);
  EXPECT_EQ(all[1].track, Track::step);
}

TEST(PhaseTracker, CountsTheCollectivesOfAStep) {
  Rank rank;
  FakeTransport transport;
  rank.phases.count(&transport, 5);
  EXPECT_EQ(rank.counted().awaited_step, 0);  // before the first step
  rank.phases.enter(Phase::data, 17);
  EXPECT_EQ(rank.counted().awaited_step, 17);
  EXPECT_EQ(rank.counted().collective, 0);
  transport.done += 6;  // includes one collective of the next step
  rank.phases.enter(Phase::data, 18);
  EXPECT_EQ(rank.counted().awaited_step, 18);
  EXPECT_EQ(rank.counted().collective, 1);
  transport.done += 4;
  EXPECT_EQ(rank.counted().awaited_step, 19);
  EXPECT_EQ(rank.counted().collective, 0);
}

TEST(PhaseTracker, IgnoresCollectivesBetweenSteps) {
  Rank rank;
  FakeTransport transport;
  rank.phases.count(&transport, 5);
  rank.step(1);
  transport.done += 5 + 3;
  EXPECT_EQ(rank.counted().awaited_step, 2);
  EXPECT_EQ(rank.counted().collective, 0);
  rank.phases.enter(Phase::data, 2);
  transport.done += 2;
  EXPECT_EQ(rank.counted().awaited_step, 2);
  EXPECT_EQ(rank.counted().collective, 2);
}

TEST(PhaseTracker, DoesNotUseACommunicatorAfterCountingEnds) {
  Rank rank;
  {
    FakeTransport transport;
    rank.phases.count(&transport, 5);
    rank.phases.enter(Phase::data, 3);
    rank.phases.count(nullptr, 1);
  }
  EXPECT_EQ(rank.counted().awaited_step, 0);
}

TEST(PhaseTracker, OnlyStepsCountForTheSlowestStep) {
  TestClock clock;
  Rank rank;
  EXPECT_EQ(rank.phases.slowest_step(), 0ns);
  rank.step(1);
  EXPECT_EQ(rank.phases.slowest_step(), 0ns);
  clock.pass(150ms);
  rank.step(2);
  EXPECT_EQ(rank.phases.slowest_step(), 150ms);
  rank.phases.enter(Phase::saving, 2);
  clock.pass(300ms);
  rank.step(3);
  EXPECT_EQ(rank.phases.slowest_step(), 150ms);
  for (int64_t step = 4; step <= 4 + 64; ++step) {
    clock.pass(1ms);
    rank.step(step);
  }
  EXPECT_EQ(rank.phases.slowest_step(), 1ms);
}

TEST(PhaseTracker, WritesTheLastThousandEvents) {
  TestClock clock;
  Rank rank;
  for (int64_t step = 1; step <= 400; ++step) {
    clock.pass(1s);
    rank.phases.enter(step == 400 ? Phase::allreduce : Phase::compute, step);
    rank.phases.launched(step, 2);
    rank.phases.step_ended(step);
  }
  const auto folder = std::filesystem::temp_directory_path() / ("phases-" + std::to_string(getpid()));
  std::filesystem::create_directory(folder);
  EXPECT_EQ(rank.phases.write(folder / "deep" / "rank-0.json"), "");
  EXPECT_EQ(rank.phases.write(folder / "deep" / "rank-0.json"), "");
  std::ifstream file(folder / "deep" / "rank-0.json");
  const auto json = nlohmann::json::parse(file);
  EXPECT_EQ(json["format"], 2);
  EXPECT_EQ(json["rank"], 0);
  EXPECT_EQ(json["host"], "a");
  const auto& events = json["events"];
  ASSERT_EQ(events.size(), 1000u);
  EXPECT_EQ(events[0]["step"], 67);
  EXPECT_EQ(events[0]["event"], "step ended");
  EXPECT_EQ(events[994]["event"], "compute");
  EXPECT_EQ(events[997]["event"], "allreduce");
  EXPECT_EQ(events[998]["event"], "launched");
  EXPECT_EQ(events[998]["bucket"], 2);
  EXPECT_EQ(events[999]["step"], 400);
  EXPECT_FALSE(events[999].contains("bucket"));
  for (const auto& event : events)
    EXPECT_DOUBLE_EQ(event["seconds"].get<double>(), 400 - event["step"].get<double>()) << event;

  EXPECT_EQ(rank.phases.write(folder / "rank-0.json", "cannot write a\xff"), "");
  std::ifstream with_error(folder / "rank-0.json");
  EXPECT_EQ(nlohmann::json::parse(with_error)["error"], "cannot write a\uFFFD");

  EXPECT_NE(rank.phases.write(folder / "deep" / "rank-0.json" / "no"), "");
  EXPECT_NE(rank.phases.write(folder / "deep").find("cannot rename"), std::string::npos);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace ddp::testing
