#include "report/events.h"

#include "core/error.h"
#include "tests/report/run_folder.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <sys/stat.h>

#include <cmath>

namespace ddp::report {
namespace {

class Events : public ::testing::Test {
 protected:
  int64_t read(const std::string& text) {
    events_.clear();
    return read_events(folder_.write("metrics.jsonl", text), [&](Event&& event) { events_.push_back(event); });
  }
  const TempFolder folder_;
  std::vector<Event> events_;
};

template <class Kind>
Kind parsed(const std::string& text) {
  return std::get<Kind>(parse_event(nlohmann::json::parse(text)).value());
}

TEST_F(Events, ALossMayBeNull) {
  EXPECT_EQ(read(step_line(3, "null") + step_line(4, "0.5")), 0);
  ASSERT_EQ(events_.size(), 2u);
  EXPECT_TRUE(std::isnan(std::get<StepEvent>(events_[0]).loss));
  EXPECT_EQ(std::get<StepEvent>(events_[1]).loss, 0.5);
}

TEST_F(Events, ARunningRunMayHaveCutTheLastLine) {
  EXPECT_EQ(read(step_line(1, "1") + R"({"event":"step","step":2,"lo)"), 0);
  EXPECT_EQ(events_.size(), 1u);
}

TEST_F(Events, BrokenLinesAreCounted) {
  const std::string deep = R"({"event":"step","step":1,"x":)" + std::string(20, '[') + std::string(20, ']') + "}\n";
  const std::string huge = R"({"event":"step","step":1,"x":")" + std::string(5 << 20, 'x') + "\"}\n";
  EXPECT_EQ(read("\n[]\n{\"step\":1}\n{\"event\":7,\n\xff\xfe\n" + deep + huge + step_line(2, "1")), 7);
  ASSERT_EQ(events_.size(), 1u);
  EXPECT_EQ(std::get<StepEvent>(events_[0]).step, 2);
}

TEST_F(Events, OtherEventsAndStepsWithoutSenseAreLeftOut) {
  EXPECT_EQ(
      read("{\"event\":\"save\",\"step\":1}\n{\"event\":\"step\",\"step\":-1}\n{\"event\":\"step\",\"step\":1.5}\n"
           "{\"event\":\"step\"}\n{\"event\":\"speed\",\"step\":1,\"ranks\":[]}\n"
           "{\"event\":\"step\",\"step\":18446744073709551615}\n{\"event\":\"timeline\",\"step\":1}\n"),
      0);
  EXPECT_TRUE(events_.empty());
}

TEST_F(Events, OnlyRegularFilesAreRead) {
  const auto fifo = folder_ / "fifo";
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  EXPECT_THROW(read_events(fifo, [](Event&&) {}), Error);
  EXPECT_THROW(read_events(folder_ / "missing", [](Event&&) {}), Error);
}

TEST(EventOfALine, HasTheSlowestRank) {
  const auto speed = parsed<SpeedEvent>(RunFolder::speed_line(10));
  ASSERT_EQ(speed.ranks.size(), 2u);
  EXPECT_EQ(speed.slowest().compute, 8);
  EXPECT_TRUE(std::isnan(speed.noise_scale));
  EXPECT_EQ(speed.communication, 1.5);
}

TEST(EventOfALine, NumbersOutOfRangeAreUnknown) {
  const auto step = parsed<StepEvent>(
      R"({"event":"step","step":1,"loss":1e300,"lr":"fast","samples":-1e31,"data_ms":-5,"compute_ms":null})");
  EXPECT_TRUE(std::isnan(step.loss));
  EXPECT_TRUE(std::isnan(step.lr));
  EXPECT_TRUE(std::isnan(step.samples));
  EXPECT_EQ(step.times.total(), 0);
}

TEST(EventOfALine, IsATimeline) {
  const auto timeline = parsed<TimelineEvent>(
      R"({"event":"timeline","step":12,"ms":8.7,"ranks":[{"rank":0,"spans":[{"track":"step","name":"waiting for data",)"
      R"("begin_ms":0.0,"end_ms":0.4},{"track":"buckets","name":"bucket 0","begin_ms":3.5,"end_ms":5.5},)"
      R"({"track":"buckets","name":"backwards","begin_ms":5,"end_ms":4},{"track":"buckets","name":"endless",)"
      R"("begin_ms":5,"end_ms":null},7]},{"rank":3,"spans":[]}]})");
  EXPECT_EQ(timeline.step, 12);
  EXPECT_EQ(timeline.ms, 8.7);
  ASSERT_EQ(timeline.ranks.size(), 2u);
  EXPECT_EQ(timeline.ranks[1].rank, 3);
  ASSERT_EQ(timeline.ranks[0].spans.size(), 2u);
  EXPECT_EQ(timeline.ranks[0].spans[1].name, "bucket 0");
  EXPECT_EQ(timeline.ranks[0].spans[1].end, 5.5);
}

TEST(EventOfALine, IsAProcess) {
  const auto run = parsed<RunEvent>(
      R"({"event":"run","step":8,"version":"0.1.0","threads":2,"world_size":3,"hosts":["a","b","b"],"secret":"x"})");
  EXPECT_EQ(run.step, 8);
  EXPECT_EQ(run.world_size, 3);
  EXPECT_EQ(run.hosts, (std::vector<std::string>{"a", "b", "b"}));
  EXPECT_EQ(run.fact("version"), "0.1.0");
  EXPECT_EQ(run.fact("threads"), "2");
  EXPECT_EQ(run.fact("secret"), "");
}

}  // namespace
}  // namespace ddp::report
