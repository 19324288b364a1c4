// The faults that ranks find and report, over a fake transport, by a test clock.
#include "health/fault_finder.h"

#include "comm/local/heartbeat_table.h"
#include "tests/health/fake_transport.h"
#include "tests/test_clock.h"
#include "tests/text.h"

#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <string>

namespace ddp::testing {
namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;

const WatchdogLimits kNone{.step = 0s, .start_up = 0s, .saving = 0s};
WatchdogLimits limit_of_step(milliseconds limit) { return {.step = limit}; }

// Ranks with heartbeat tables, some of which check for faults.
struct Job {
  explicit Job(std::vector<std::string> hosts) : faults(static_cast<int>(hosts.size())) {
    const auto size = static_cast<int>(hosts.size());
    tables = make_local_heartbeat_tables(size, std::move(hosts), &faults);
    for (const auto& heartbeats : tables) trackers.emplace_back(*heartbeats);
  }

  FaultFinder& watch(int rank, const WatchdogLimits& limits) {
    watching.push_back(rank);
    return finders.try_emplace(rank, limits, trackers[rank]).first->second;
  }
  // All watching ranks check every 100 ms, in the order of watch(). Like the program's, a rank that reports leaves.
  void pass(milliseconds time) {
    for (; time >= kCheckInterval; time -= kCheckInterval) {
      clock.pass(kCheckInterval);
      for (const int rank : watching) {
        if (tables[rank]->left(rank)) continue;
        const std::string text = finders.at(rank).check();
        if (text.empty()) continue;
        reports.push_back({rank, text});
        tables[rank]->leave();
      }
    }
    clock.pass(time);
  }
  // The first report; comes within 30 s.
  std::string text() {
    for (milliseconds waited = 0s; reports.empty() && waited < 30s; waited += kCheckInterval) pass(kCheckInterval);
    return reports.empty() ? "no report" : reports[0].second;
  }
  int reporter() const { return reports.empty() ? -1 : reports[0].first; }
  void all_enter(Phase phase, int64_t step) {
    for (PhaseTracker& phases : trackers) phases.enter(phase, step);
  }

  TestClock clock;
  HeartbeatFaults faults;
  std::vector<std::unique_ptr<HeartbeatTable>> tables;
  std::deque<PhaseTracker> trackers;
  std::map<int, FaultFinder> finders;
  std::vector<int> watching;
  FakeTransport transport;
  std::vector<std::pair<int, std::string>> reports;
};

TEST(FaultFinder, NamesTheStepAndThePendingBucket) {
  Job job({"a"});
  job.watch(0, limit_of_step(300ms)).monitor(job.transport, nullptr, 3, 2);
  job.trackers[0].enter(Phase::data, 17);
  job.trackers[0].enter(Phase::data, 18);
  job.transport.done += 5 + 1;
  job.trackers[0].enter(Phase::allreduce, 18);
  job.pass(300ms);
  EXPECT_EQ(job.reports.size(), 0u);
  job.pass(100ms);
  EXPECT_HAS(job.text(), "rank 0 on host a has waited in bucket 1 of step 18 for 0.4 s");
  EXPECT_HAS(job.text(), "--step-timeout");
}

TEST(FaultFinder, ShowsAllRanks) {
  Job job({"a", "a"});
  const FaultFinder& finder = job.watch(0, kNone);
  job.watch(1, kNone);
  job.trackers[1].enter(Phase::saving, 8);
  job.pass(250ms);
  const auto ranks = finder.ranks();
  ASSERT_EQ(ranks.size(), 2u);
  EXPECT_TRUE(all_run(ranks));
  EXPECT_EQ(ranks[1].host, "a");
  EXPECT_EQ(ranks[1].phase, Phase::saving);
  EXPECT_EQ(ranks[1].step, 8);
  EXPECT_DOUBLE_EQ(ranks[1].phase_seconds, 0.25);
  EXPECT_DOUBLE_EQ(ranks[1].silent_seconds.value(), 0.05);
  job.faults.dead[1] = true;
  EXPECT_EQ(finder.ranks().at(1).state, RankStatus::State::dead);
}

TEST(FaultFinder, NamesTheRankThatOthersWaitFor) {
  Job job({"a", "b"});
  job.all_enter(Phase::data, 7);
  job.watch(0, limit_of_step(300ms)).monitor(job.transport, nullptr, 3, 0);
  job.watch(1, kNone);
  job.trackers[0].enter(Phase::allreduce, 7);
  EXPECT_HAS(job.text(), "rank 1 on host b has been in the data loader for 0.4 s");
}

TEST(FaultFinder, OnlyTheLowestLivingRankReportsADeadRank) {
  Job job({"a", "a", "a"});
  job.all_enter(Phase::data, 17);
  WatchdogLimits limits = kNone;
  limits.report_interval = 1s;
  for (const int rank : {2, 1}) job.watch(rank, limits);
  job.faults.dead[0] = true;
  EXPECT_HAS(job.text(), "rank 0 on host a (pid ");
  EXPECT_HAS(job.text(), ") has died in step 17, in the data loader");
  EXPECT_EQ(job.reporter(), 1);
  job.pass(30s);
  EXPECT_EQ(job.reports.size(), 1u);
}

TEST(FaultFinder, RanksThatEndAfterOneHasLeftAreNotReported) {
  Job job({"a", "a", "a"});
  job.watch(0, limit_of_step(200ms));
  job.tables[1]->leave();
  job.faults.dead[1] = true;  // ended after its message
  job.faults.dead[2] = true;  // ended by the launcher
  job.all_enter(Phase::allreduce, 4);
  job.pass(10s);
  EXPECT_EQ(job.reports.size(), 0u);
  job.pass(100ms);  // 10 s after rank 0 has seen it
  EXPECT_EQ(job.reports.size(), 1u);
}

TEST(FaultFinder, EachSideReportsAnUnreachableHost) {
  Job job({"a", "a", "b"});
  WatchdogLimits limits = kNone;
  limits.host_silence = 500ms;
  limits.report_interval = 1s;
  for (const int rank : {1, 0}) job.watch(rank, limits);
  job.pass(1s);
  job.tables[2]->sign_of_life();
  job.faults.unreachable[2] = true;
  job.pass(500ms);
  EXPECT_EQ(job.reports.size(), 0u);
  job.pass(100ms);
  EXPECT_HAS(job.text(), "host b (rank 2) cannot be reached: last heard from 0.6 s ago");
  EXPECT_EQ(job.reporter(), 0);
  job.pass(30s);
  EXPECT_EQ(job.reports.size(), 1u);
}

TEST(FaultFinder, UnreachableHostIsReportedAfterARankOfAnotherHostLeft) {
  Job job({"a", "b", "c"});
  WatchdogLimits limits = kNone;
  limits.host_silence = 500ms;
  job.watch(1, limits);
  job.tables[2]->leave();  // after its message
  job.faults.unreachable[0] = true;
  EXPECT_HAS(job.text(), "host a (rank 0) cannot be reached");
}

TEST(FaultFinder, NamesAStoppedRankWhenAnotherIsLate) {
  Job job({"a", "a"});
  job.faults.stopped[1] = true;
  job.trackers[0].enter(Phase::allreduce, 3);
  job.watch(0, limit_of_step(4s));
  job.watch(1, kNone);
  EXPECT_HAS(job.text(), "rank 1 on host a is stopped: no sign of life for 4.1 s");
}

TEST(FaultFinder, HostWithAStoppedLeaderDoesNotReportOthersAsUnreachable) {
  Job job({"a", "a", "b"});
  job.all_enter(Phase::allreduce, 3);
  job.tables[2]->sign_of_life();
  job.faults.stopped[0] = true;
  job.faults.unreachable[2] = true;  // as host a sees it
  WatchdogLimits limits = limit_of_step(5500ms);
  limits.host_silence = 4s;
  job.watch(1, limits);
  EXPECT_HAS(job.text(), "rank 0 on host a is stopped: no sign of life for 5.6 s");
}

TEST(FaultFinder, ReportsWhyTheTransportFailed) {
  Job job({"a"});
  job.trackers[0].enter(Phase::data, 4);
  job.watch(0, kNone).monitor(job.transport, nullptr, 3, 2);
  job.pass(5s);
  EXPECT_EQ(job.reports.size(), 0u);
  job.transport.broken = true;
  job.pass(100ms);
  EXPECT_HAS(job.text(),
             "rank 0 on host a has been in the data loader for 5.1 s (step 4), the transport failed: remote process "
             "exited; NCCL's last error: socket closed");
}

TEST(FaultFinder, ChecksTheSecondCommunicatorForFailures) {
  Job job({"a"});
  FakeTransport other;
  job.watch(0, kNone).monitor(job.transport, &other, 3, 2);
  other.broken = true;
  job.pass(100ms);
  EXPECT_HAS(job.text(), "socket closed");
}

TEST(FaultFinder, DoesNotUseACommunicatorThatItNoLongerFollows) {
  Job job({"a"});
  FaultFinder& finder = job.watch(0, kNone);
  {
    FakeTransport gone;
    gone.broken = true;
    finder.monitor(gone, &gone, 3, 2);
    finder.end_monitoring();
  }
  finder.monitor(job.transport, nullptr, 3, 2);
  job.pass(1s);
  EXPECT_EQ(job.reports.size(), 0u);
}

TEST(FaultFinder, DelaysItsReportAfterOthers) {
  for (const bool other_watches : {true, false}) {
    Job job({"a", "a"});
    job.all_enter(Phase::allreduce, 4);
    WatchdogLimits limits = limit_of_step(200ms);
    limits.report_delay = 1s;
    job.watch(0, limits);
    job.watch(1, other_watches ? limit_of_step(200ms) : kNone);
    job.pass(1200ms);
    EXPECT_EQ(job.reporter(), other_watches ? 1 : -1);
    job.pass(100ms);
    EXPECT_EQ(job.reporter(), other_watches ? 1 : 0);
    job.pass(8s);  // less than the time to leave
    EXPECT_EQ(job.reports.size(), 1u);
  }
}

TEST(FaultFinder, IsQuietWhilePhasesEndInTime) {
  Job job({"a", "b"});
  job.watch(1, kNone);
  job.watch(0, limit_of_step(1500ms)).monitor(job.transport, nullptr, 3, 2);
  for (int64_t step = 1; step <= 20; ++step) {
    job.trackers[0].enter(step % 2 == 0 ? Phase::data : Phase::evaluation, step);
    job.pass(1500ms);
  }
  job.trackers[0].enter(Phase::saving, 20);
  job.pass(100s);
  EXPECT_EQ(job.reports.size(), 0u);
}

TEST(FaultFinder, RankThatWaitsForASaveIsNotLate) {
  Job job({"a", "a"});
  job.watch(1, kNone);
  job.trackers[1].enter(Phase::saving, 4);
  job.trackers[0].enter(Phase::allreduce, 5);
  job.watch(0, {.step = 200ms});
  job.pass(100s);
  EXPECT_EQ(job.reports.size(), 0u);
  job.trackers[1].enter(Phase::compute, 5);
  job.pass(100ms);
  EXPECT_HAS(job.text(), "rank 1 on host a has been computing for 0.1 s");
}

TEST(FaultFinder, StartUpHasItsOwnLimit) {
  Job job({"a"});
  job.watch(0, {.step = 0s, .start_up = 200ms});
  EXPECT_HAS(job.text(), "rank 0 on host a has been in start-up for 0.3 s");
}

TEST(FaultFinder, WaitsForARankThatReadsAndHasProgress) {
  Job job({"a", "a"});
  job.watch(1, kNone);
  job.watch(0, {.step = 0s, .start_up = 2s});
  for (int i = 0; i < 10; ++i) {
    job.trackers[1].enter(Phase::reading, 0);
    job.pass(2s);
  }
  EXPECT_EQ(job.reports.size(), 0u);
  job.pass(100ms);
  EXPECT_HAS(job.text(), "rank 1 on host a has been reading the data for 2.1 s");
}

// A check that comes more than 2.1 s after the last one stands for a host that sleeps.
TEST(FaultFinder, TimesStartAnewAfterASuspension) {
  for (const auto& [sleep, reported] : {std::pair(2s, "2.1 s"), std::pair(3s, "0.4 s")}) {
    Job job({"a"});
    job.trackers[0].enter(Phase::data, 1);
    job.watch(0, limit_of_step(300ms)).monitor(job.transport, nullptr, 3, 2);
    job.clock.pass(sleep);
    EXPECT_HAS(job.text(), std::string("in the data loader for ") + reported);
  }
}

}  // namespace
}  // namespace ddp::testing
