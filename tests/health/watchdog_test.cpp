// Watchdogs with ranks as threads, over a fake transport.
#include "health/watchdog.h"

#include "comm/local/heartbeat_table.h"
#include "core/stopwatch.h"
#include "tests/health/fake_transport.h"
#include "tests/number_after.h"
#include "tests/text.h"

#include <gtest/gtest.h>

#include <deque>
#include <string>
#include <thread>

namespace ddp::testing {
namespace {

using namespace std::chrono_literals;

const WatchdogLimits kNone{.step = 0s, .start_up = 0s, .saving = 0s};
WatchdogLimits limit_of_step(std::chrono::milliseconds limit) { return {.step = limit}; }

// Ranks with heartbeat tables and optional watchdogs. Keeps the watchdogs' messages in order.
struct Job {
  explicit Job(std::vector<std::string> hosts) : faults(static_cast<int>(hosts.size())) {
    const auto size = static_cast<int>(hosts.size());
    tables = make_local_heartbeat_tables(size, std::move(hosts), &faults);
    for (const auto& heartbeats : tables) trackers.emplace_back(*heartbeats);
  }
  ~Job() { watchdogs.clear(); }

  // Starts a watchdog. Like the program's, it leaves the heartbeat table after its message.
  Watchdog& watch(int rank, const WatchdogLimits& limits) {
    return watchdogs.emplace_back(limits, trackers[rank], [this, rank](const std::string& text) {
      const std::lock_guard lock(mutex);
      reports.push_back({rank, text});
      tables[rank]->leave();
      changed.notify_all();
    });
  }
  std::string text() {
    std::unique_lock lock(mutex);
    return changed.wait_for(lock, 30s, [this] { return !reports.empty(); }) ? reports[0].second : "no report";
  }
  size_t times() {
    const std::lock_guard lock(mutex);
    return reports.size();
  }
  int reporter() {
    const std::lock_guard lock(mutex);
    return reports.empty() ? -1 : reports[0].first;
  }
  void all_enter(Phase phase, int64_t step) {
    for (PhaseTracker& phases : trackers) phases.enter(phase, step);
  }

  HeartbeatFaults faults;
  std::vector<std::unique_ptr<HeartbeatTable>> tables;
  std::deque<PhaseTracker> trackers;
  std::deque<Watchdog> watchdogs;
  FakeTransport transport;
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<std::pair<int, std::string>> reports;
};

// The time of a report, in its last digit, is between the limit and that of a watch which started before the phase.
void expect_time_of_phase(const std::string& report, const std::string& before, double limit, const Stopwatch& phase) {
  const double seconds = number_after(report, before), last_digit = 0.1;
  EXPECT_GE(seconds, limit - last_digit) << report;
  EXPECT_LE(seconds, phase.seconds() + last_digit) << report;
}

TEST(Watchdog, NamesTheStepAndThePendingBucket) {
  Job job({"a"});
  const auto monitoring = job.watch(0, limit_of_step(300ms)).monitor(job.transport, nullptr, 3, 2);
  job.trackers[0].enter(Phase::data, 17);
  job.trackers[0].enter(Phase::data, 18);
  job.transport.done += 5 + 1;
  const Stopwatch phase;
  job.trackers[0].enter(Phase::allreduce, 18);
  expect_time_of_phase(job.text(), "rank 0 on host a has waited in bucket 1 of step 18 for ", 0.3, phase);
  EXPECT_HAS(job.text(), "--step-timeout");
}

TEST(Watchdog, ShowsAllRanksToAnyThread) {
  Job job({"a", "a"});
  Watchdog& watchdog = job.watch(0, kNone);
  job.watch(1, kNone);
  job.trackers[1].enter(Phase::saving, 8);
  std::this_thread::sleep_for(200ms);
  const auto ranks = watchdog.ranks();
  ASSERT_EQ(ranks.size(), 2u);
  EXPECT_TRUE(all_run(ranks));
  EXPECT_EQ(ranks[1].host, "a");
  EXPECT_EQ(ranks[1].phase, Phase::saving);
  EXPECT_EQ(ranks[1].step, 8);
  EXPECT_GE(ranks[1].phase_seconds, 0.2);
  job.faults.dead[1] = true;
  EXPECT_EQ(watchdog.ranks().at(1).state, RankStatus::State::dead);
}

TEST(Watchdog, NamesTheRankThatOthersWaitFor) {
  Job job({"a", "b"});
  job.all_enter(Phase::data, 7);
  const auto monitoring = job.watch(0, limit_of_step(300ms)).monitor(job.transport, nullptr, 3, 0);
  job.watch(1, kNone);
  job.trackers[0].enter(Phase::allreduce, 7);
  EXPECT_HAS(job.text(), "rank 1 on host b has been in the data loader for ");
}

TEST(Watchdog, OnlyTheLowestLivingRankReportsADeadRank) {
  Job job({"a", "a", "a"});
  job.all_enter(Phase::data, 17);
  WatchdogLimits limits = kNone;
  limits.report_interval = 1s;
  for (const int rank : {2, 1}) job.watch(rank, limits);
  job.faults.dead[0] = true;
  EXPECT_HAS(job.text(), "rank 0 on host a (pid ");
  EXPECT_HAS(job.text(), ") has died in step 17, in the data loader");
  EXPECT_EQ(job.reporter(), 1);
  std::this_thread::sleep_for(1400ms);
  EXPECT_EQ(job.times(), 1u);
}

TEST(Watchdog, RanksThatEndAfterOneHasLeftAreNotReported) {
  Job job({"a", "a", "a"});
  job.watch(0, limit_of_step(200ms));
  job.tables[1]->leave();
  job.faults.dead[1] = true;  // ended after its message
  job.faults.dead[2] = true;  // ended by the launcher
  job.trackers[0].enter(Phase::allreduce, 4);
  std::this_thread::sleep_for(900ms);
  EXPECT_EQ(job.times(), 0u);
}

TEST(Watchdog, EachSideReportsAnUnreachableHost) {
  Job job({"a", "a", "b"});
  WatchdogLimits limits = kNone;
  limits.host_silence = 500ms;
  limits.report_interval = 1s;
  for (const int rank : {1, 0}) job.watch(rank, limits);
  std::this_thread::sleep_for(300ms);
  EXPECT_EQ(job.times(), 0u);
  job.faults.unreachable[2] = true;
  EXPECT_HAS(job.text(), "host b (rank 2) cannot be reached");
  EXPECT_EQ(job.reporter(), 0);
  std::this_thread::sleep_for(1400ms);
  EXPECT_EQ(job.times(), 1u);
}

TEST(Watchdog, UnreachableHostIsReportedAfterARankOfAnotherHostLeft) {
  Job job({"a", "b", "c"});
  WatchdogLimits limits = kNone;
  limits.host_silence = 500ms;
  job.watch(1, limits);
  job.tables[2]->leave();  // after its message
  job.faults.unreachable[0] = true;
  EXPECT_HAS(job.text(), "host a (rank 0) cannot be reached");
}

TEST(Watchdog, NamesAStoppedRankWhenAnotherIsLate) {
  Job job({"a", "a"});
  job.faults.stopped[1] = true;
  job.trackers[0].enter(Phase::allreduce, 3);
  job.watch(0, limit_of_step(4s));
  job.watch(1, kNone);
  EXPECT_HAS(job.text(), "rank 1 on host a is stopped: no sign of life for ");
}

TEST(Watchdog, HostWithAStoppedLeaderDoesNotReportOthersAsUnreachable) {
  Job job({"a", "a", "b"});
  job.all_enter(Phase::allreduce, 3);
  job.tables[2]->sign_of_life();
  job.faults.stopped[0] = true;
  job.faults.unreachable[2] = true;  // as host a sees it
  WatchdogLimits limits = limit_of_step(5500ms);
  limits.host_silence = 4s;
  job.watch(1, limits);
  const std::string text = job.text();
  EXPECT_GE(number_after(text, "rank 0 on host a is stopped: no sign of life for "), 5) << text;
}

TEST(Watchdog, ReportsWhyTheTransportFailed) {
  Job job({"a"});
  const Stopwatch phase;
  job.trackers[0].enter(Phase::data, 4);
  const auto monitoring = job.watch(0, kNone).monitor(job.transport, nullptr, 3, 2);
  job.transport.broken = true;
  expect_time_of_phase(job.text(), "rank 0 on host a has been in the data loader for ", 0, phase);
  EXPECT_HAS(job.text(), "(step 4), the transport failed: remote process exited; NCCL's last error: socket closed");
}

TEST(Watchdog, ChecksTheSecondCommunicatorForFailures) {
  Job job({"a"});
  FakeTransport other;
  const auto monitoring = job.watch(0, kNone).monitor(job.transport, &other, 3, 2);
  other.broken = true;
  EXPECT_HAS(job.text(), "socket closed");
}

TEST(Watchdog, DoesNotUseACommunicatorThatItNoLongerFollows) {
  Job job({"a"});
  Watchdog& watchdog = job.watch(0, kNone);
  {
    FakeTransport gone;
    const auto monitoring = watchdog.monitor(gone, &gone, 3, 2);
  }
  const auto monitoring = watchdog.monitor(job.transport, nullptr, 3, 2);
  std::this_thread::sleep_for(300ms);
  EXPECT_EQ(job.times(), 0u);
}

TEST(Watchdog, DelaysItsReportAfterOthers) {
  Job job({"a", "a"});
  job.all_enter(Phase::allreduce, 4);
  WatchdogLimits limits = limit_of_step(200ms);
  limits.report_delay = 1s;
  job.watch(0, limits);
  job.watch(1, limit_of_step(200ms));
  job.text();
  EXPECT_EQ(job.reporter(), 1);
  std::this_thread::sleep_for(1400ms);
  EXPECT_EQ(job.times(), 1u);
}

TEST(Watchdog, IsQuietWhilePhasesEndInTime) {
  Job job({"a", "b"});
  job.watch(1, kNone);
  const auto monitoring = job.watch(0, limit_of_step(1500ms)).monitor(job.transport, nullptr, 3, 2);
  for (int64_t step = 1; step <= 20; ++step) {
    job.trackers[0].enter(step % 2 == 0 ? Phase::data : Phase::evaluation, step);
    std::this_thread::sleep_for(100ms);
  }
  job.trackers[0].enter(Phase::saving, 20);
  std::this_thread::sleep_for(2s);
  EXPECT_EQ(job.times(), 0u);
}

TEST(Watchdog, RankThatWaitsForASaveIsNotLate) {
  Job job({"a", "a"});
  job.watch(1, kNone);
  job.trackers[1].enter(Phase::saving, 4);
  job.trackers[0].enter(Phase::allreduce, 5);
  job.watch(0, {.step = 200ms});
  std::this_thread::sleep_for(800ms);
  EXPECT_EQ(job.times(), 0u);
  job.trackers[1].enter(Phase::compute, 5);
  EXPECT_HAS(job.text(), "rank 1 on host a has been computing for ");
}

TEST(Watchdog, StartUpHasItsOwnLimit) {
  const Stopwatch phase;
  Job job({"a"});
  job.watch(0, {.step = 0s, .start_up = 200ms});
  expect_time_of_phase(job.text(), "rank 0 on host a has been in start-up for ", 0.2, phase);
}

TEST(Watchdog, WaitsForARankThatReadsAndHasProgress) {
  Job job({"a", "a"});
  job.watch(1, kNone);
  const WatchdogLimits limits{.step = 0s, .start_up = 2s};
  job.watch(0, limits);
  Stopwatch phase;
  for (int i = 0; i < 10; ++i) {
    phase = {};
    job.trackers[1].enter(Phase::reading, 0);
    std::this_thread::sleep_for(250ms);
  }
  EXPECT_EQ(job.times(), 0u);
  expect_time_of_phase(job.text(), "rank 1 on host a has been reading the data for ", 2, phase);
}

// A check that is held up stands for a host that sleeps.
TEST(Watchdog, TimesStartAnewAfterASuspension) {
  Job job({"a"});
  const Stopwatch phase;
  job.trackers[0].enter(Phase::data, 1);
  const auto monitoring = job.watch(0, limit_of_step(300ms)).monitor(job.transport, nullptr, 3, 2);
  job.transport.hold_ms = 2500;
  const std::string text = job.text();
  EXPECT_LT(number_after(text, "in the data loader for "), phase.seconds() - 2) << text;
}

TEST(Watchdog, ReportsOnce) {
  Job job({"a"});
  job.trackers[0].enter(Phase::data, 1);
  job.watch(0, limit_of_step(50ms));
  job.text();
  std::this_thread::sleep_for(400ms);
  EXPECT_EQ(job.times(), 1u);
}

}  // namespace
}  // namespace ddp::testing
