// The trace of ranks that are threads.
#include "telemetry/trace.h"

#include "core/error.h"
#include "core/stopwatch.h"
#include "tests/comm/ranks.h"
#include "tests/temp_folder.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <barrier>
#include <fstream>

namespace ddp {
namespace {

// MpiSession::gather() of threads.
class Gathering {
 public:
  explicit Gathering(int ranks) : texts_(ranks), arrived_(ranks) {}
  std::vector<std::string> operator()(int rank, const std::string& mine) {
    texts_[rank] = mine;
    arrived_.arrive_and_wait();
    std::vector<std::string> all = texts_;
    arrived_.arrive_and_wait();
    return all;
  }

 private:
  std::vector<std::string> texts_;
  std::barrier<> arrived_;
};

class TwoRanks : public ::testing::Test {
 protected:
  void run(const TraceConfig& config, const std::function<void(Trace& trace, int rank)>& work) const {
    Gathering gathering(2);
    run_ranks(2, [&](Communicator& ranks) {
      const std::vector<std::string> hosts{"a\"b", "c"};
      Trace trace(
          config, ranks, [&](const std::string& mine) { return gathering(ranks.rank(), mine); },
          ranks.rank() == 0 ? std::make_unique<TraceFile>(path, hosts) : nullptr);
      work(trace, ranks.rank());
    });
  }

  static Span span(const char* name, int64_t number, Track track = Track::step) {
    const int64_t now = steady_ns();
    return {.track = track, .name = name, .begin_ns = now, .end_ns = now + 2000, .number = number};
  }

  std::string text() const {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  // Names of the spans of a rank.
  std::vector<std::string> names(const nlohmann::json& events, int rank) const {
    std::vector<std::string> found;
    for (const auto& event : events)
      if (event["ph"] == "X" && event["pid"] == rank) found.push_back(event["name"]);
    return found;
  }

  const TempFolder temp;
  const std::filesystem::path path = temp / "trace.json";
};

TEST_F(TwoRanks, RecordTheStepsOfTheWindow) {
  run({.steps = {.first = 3, .last = 5}}, [](Trace& trace, int rank) {
    EXPECT_FALSE(trace.paused(0, false));
    EXPECT_FALSE(trace.on());
    trace.record(span("early", 1));
    EXPECT_TRUE(trace.pauses_after(2));
    EXPECT_FALSE(trace.pauses_after(3));
    EXPECT_TRUE(trace.pauses_after(5));
    const int64_t before = steady_ns();
    EXPECT_FALSE(trace.paused(2, false));
    EXPECT_TRUE(trace.on());
    trace.record({.name = "began before", .begin_ns = before, .end_ns = steady_ns(), .number = 2});
    trace.record(span("data", 3));
    if (rank == 1) trace.record(span("data", 4));
    EXPECT_FALSE(trace.paused(4, false));  // such as the end of an epoch
    trace.record(span("compute", 3));
    const auto timeline = trace.paused(5, false);
    EXPECT_EQ(timeline.has_value(), rank == 0);
    if (timeline) {
      EXPECT_EQ(timeline->step, 3);
      EXPECT_EQ(timeline->ranks[1].size(), 2u);
      EXPECT_EQ(trace.recorded(), 5);
      EXPECT_EQ(trace.dropped(), 0);
      EXPECT_EQ(trace.steps().first, 3);
      EXPECT_EQ(trace.steps().last, 4);
    }
    EXPECT_FALSE(trace.on());
    trace.record(span("late", 6));
    EXPECT_FALSE(trace.paused(6, true));
  });
  const auto events = nlohmann::json::parse(text());
  EXPECT_EQ(names(events, 0), (std::vector<std::string>{"data", "compute"}));
  EXPECT_EQ(names(events, 1), (std::vector<std::string>{"data", "data", "compute"}));
  EXPECT_EQ(events[0]["args"]["name"], "rank 0 on a\"b");
  int64_t spans = 0;
  for (const auto& event : events)
    if (event["ph"] == "X") {
      ++spans;
      EXPECT_EQ(event["cat"], "step");
      EXPECT_NEAR(event["dur"].get<double>(), 2, 1);
      EXPECT_GT(event["ts"].get<double>(), -20'000);
      EXPECT_LT(event["ts"].get<double>(), 1e7);
    }
  EXPECT_EQ(spans, 5);
}

TEST_F(TwoRanks, WriteAtTheEndOfTheRunAndCountWhatDoesNotFit) {
  run({.steps = {.first = 1, .last = 100}, .spans = 10}, [](Trace& trace, int rank) {
    trace.paused(0, false);
    for (int i = 0; i < (rank == 0 ? 8 : 15); ++i) trace.record(span("data", 1));
    trace.paused(1, false);
    for (int i = 0; i < 4; ++i) trace.record(span("data", 2));
    trace.paused(2, true);
    if (rank == 0) {
      EXPECT_EQ(trace.recorded(), 20);
      EXPECT_EQ(trace.dropped(), 2 + 9);
    }
  });
  const auto events = nlohmann::json::parse(text());
  EXPECT_EQ(names(events, 0).size(), 10u);
  EXPECT_EQ(names(events, 1).size(), 10u);
}

// A killed run: each pause has left whole lines; only the end of the array is missing.
TEST_F(TwoRanks, LeaveWholeEventsAtEachPause) {
  run({.steps = {.first = 1, .last = 100}}, [](Trace& trace, int) {
    trace.paused(0, false);
    trace.record(span("data", 1));
    trace.paused(1, false);
    trace.record(span("lost", 2));
  });
  const auto events = nlohmann::json::parse(text() + "]");
  EXPECT_EQ(names(events, 0), (std::vector<std::string>{"data"}));
  EXPECT_EQ(names(events, 1), (std::vector<std::string>{"data"}));
}

TEST_F(TwoRanks, AnEmptyTraceIsAnArray) {
  run({.steps = {.first = 50, .last = 100}}, [](Trace& trace, int) {
    trace.paused(0, false);
    trace.paused(20, true);
    EXPECT_EQ(trace.recorded(), 0);
    trace.close();
  });
  EXPECT_EQ(names(nlohmann::json::parse(text()), 0).size(), 0u);
}

TEST(TraceFile, LinksAreReplacedAndFoldersRefused) {
  const TempFolder temp;
  const std::vector<std::string> hosts{"a"};
  std::ofstream(temp / "other") << "kept";
  std::filesystem::create_symlink(temp / "other", temp / "trace");
  TraceFile(temp / "trace", hosts).close();
  std::ifstream other(temp / "other");
  std::string word;
  other >> word;
  EXPECT_EQ(word, "kept");
  EXPECT_FALSE(std::filesystem::is_symlink(temp / "trace"));
  EXPECT_THROW(TraceFile(temp.path(), hosts), Error);
}

}  // namespace
}  // namespace ddp
