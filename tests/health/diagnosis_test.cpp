// The diagnosis of a heartbeat table, and the time limits of phases.
#include "health/diagnosis.h"

#include "tests/text.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace ddp::testing {
namespace {

using namespace std::chrono_literals;

constexpr int kBuckets = 3;
constexpr int64_t kNow = 1'000'000'000'000;
int64_t ago(double seconds) { return kNow - static_cast<int64_t>(seconds * 1e9); }

// Hosts a, b, c, ... with two ranks each. All ranks are alive and have waited in bucket 2 of step 812 for 41 s.
struct World {
  explicit World(int size) {
    for (int rank = 0; rank < size; ++rank) {
      RankView view;
      view.rank = rank;
      view.host = std::string(1, static_cast<char>('a' + rank / 2));
      view.heard_ns = kNow;
      view.pid = 100 + rank;
      view.heartbeat = {.step = 812,
                        .phase = static_cast<int32_t>(Phase::allreduce),
                        .collective = 2,
                        .awaited_step = 812,
                        .since_ns = ago(41),
                        .alive_ns = ago(0.1)};
      ranks.push_back(view);
    }
  }
  RankView& operator[](int rank) { return ranks[rank]; }
  void set(int rank, Phase phase, double seconds = 41) {
    ranks[rank].heartbeat.phase = static_cast<int32_t>(phase);
    ranks[rank].heartbeat.since_ns = ago(seconds);
  }
  std::string text() const { return describe(ranks, kBuckets, {}, kNow); }
  std::vector<RankView> ranks;
};

TEST(Diagnosis, NamesTheRankInTheDataLoaderAndWhereTheOthersWait) {
  World world(8);
  world.set(5, Phase::data, 41.04);
  EXPECT_EQ(
      world.text(),
      "rank 5 on host c has been in the data loader for 41.0 s; 7 ranks wait in bucket 2 of step 812. Look at that "
      "rank first, or raise --step-timeout");
}

TEST(Diagnosis, NamesEveryPhaseThatOthersWaitFor) {
  for (const auto& [phase, words] : {std::pair{Phase::compute, "has been computing for"},
                                     {Phase::evaluation, "has been in the evaluation for"},
                                     {Phase::saving, "has been saving for"},
                                     {Phase::reading, "has been reading the data for 41.0 s"},
                                     {Phase::update, "has been updating the weights for"},
                                     {Phase::start_up, "has been in start-up for 41.0 s"}}) {
    World world(4);
    world.set(2, phase);
    world[2].heartbeat.awaited_step = phase == Phase::update ? 813 : 0;
    EXPECT_HAS(world.text(), std::string("rank 2 on host b ") + words);
    EXPECT_HAS(world.text(), "; 3 ranks wait in bucket 2 of step 812");
  }
}

TEST(Diagnosis, NamesAtMostThreeOfManyRanks) {
  World world(20);
  for (int rank = 0; rank < 8; ++rank) world.set(rank, Phase::data);
  EXPECT_HAS(world.text(),
             "ranks 0 (host a), 1 (host a), 2 (host b) and 5 more have been in the data loader for 41.0 s; "
             "12 ranks wait in bucket 2 of step 812");
}

TEST(Diagnosis, NamesAHostOnceForRanksThatShareIt) {
  World world(4);
  world.set(2, Phase::data);
  world.set(3, Phase::data);
  EXPECT_HAS(world.text(), "ranks 2 and 3 on host b have been in the data loader");
}

TEST(Diagnosis, BlamesTheLongestPhaseAndNotRanksThatProgress) {
  World world(4);
  world.set(1, Phase::data, 60);
  world.set(2, Phase::compute, 0.2);
  EXPECT_HAS(world.text(), "rank 1 on host a has been in the data loader");
  EXPECT_LACKS(world.text(), "rank 2");
  world.set(1, Phase::allreduce, 60);
  EXPECT_HAS(world.text(), "rank 2 on host b has been computing for 0.2 s; 3 ranks wait");
}

TEST(Diagnosis, RanksInStartUpWaitForThoseThatRead) {
  World world(4);
  for (int rank = 0; rank < 4; ++rank) world.set(rank, Phase::start_up, 500);
  world.set(3, Phase::reading, 12);
  EXPECT_EQ(world.text().find("rank 3 on host b has been reading the data for 12.0 s. Look at that rank first"), 0u)
      << world.text();
}

TEST(Diagnosis, DistinguishesStoppedFromSlowRanks) {
  World world(4);
  world.set(1, Phase::compute);
  world[1].heartbeat.alive_ns = ago(40.5);
  EXPECT_EQ(
      world.text(),
      "rank 1 on host a is stopped: no sign of life for 40.5 s (in step 812, computing); 3 ranks wait in bucket 2 "
      "of step 812. Find out what stopped it");
  world[1].heartbeat.alive_ns = ago(2.9);
  EXPECT_LACKS(world.text(), "stopped");
}

TEST(Diagnosis, DeadRankComesFirst) {
  World world(4);
  world[1].dead = true;
  world[1].pid = 123;
  world[1].heartbeat.step = 17;
  world.set(1, Phase::data);
  world[3].heartbeat.alive_ns = ago(50);
  EXPECT_EQ(world.text(),
            "rank 1 on host a (pid 123) has died in step 17, in the data loader; the launcher's message names the "
            "signal");
  world[1].heartbeat.step = 0;
  world.set(1, Phase::start_up);
  EXPECT_HAS(world.text(), "has died before the first step, in start-up;");
}

TEST(Diagnosis, NamesAnUnreachableHostOnceWithItsRanks) {
  World world(4);
  for (const int rank : {2, 3}) {
    world[rank].heard_ns = ago(12);
    world[rank].heartbeat.alive_ns = ago(12.3);
  }
  EXPECT_HAS(world.text(),
             "host b (ranks 2 and 3) cannot be reached: last heard from 12.0 s ago, in step 812. The network");
  EXPECT_LACKS(world.text(), "stopped");
  EXPECT_LACKS(world.text(), "wait in");
}

TEST(Diagnosis, HostWithAShorterSilenceIsUnreachableAndNotStopped) {
  World world(4);
  world[0].host = "c";
  for (const auto& [rank, seconds] : {std::pair(0, 6.9), {2, 7.1}, {3, 7.1}})
    world[rank].heard_ns = world[rank].heartbeat.alive_ns = ago(seconds);
  EXPECT_HAS(world.text(),
             "host b (ranks 2 and 3) cannot be reached: last heard from 7.1 s ago, in step 812 and host c");
  EXPECT_LACKS(world.text(), "stopped");
}

TEST(Diagnosis, StoppedHostLeaderHidesNoOtherHosts) {
  World world(4);
  world[0].heartbeat.alive_ns = ago(12);
  for (const int rank : {2, 3}) world[rank].heard_ns = world[rank].heartbeat.alive_ns = ago(12);
  EXPECT_HAS(world.text(), "rank 0 on host a is stopped");
  EXPECT_LACKS(world.text(), "cannot be reached");
}

TEST(Diagnosis, BlamesTheNetworkIfAllRanksWaitInOneBucket) {
  World world(4);
  world.set(3, Phase::allreduce, 40);
  EXPECT_EQ(
      world.text(),
      "all 4 ranks have waited in bucket 2 of step 812 for 40.0 s. Look at the network between the hosts, or raise "
      "--step-timeout");
}

TEST(Diagnosis, DifferentBucketsAreListedInOrder) {
  World world(8);
  world[6].heartbeat.collective = 1;
  EXPECT_HAS(world.text(), "rank 6 on host d waits in bucket 1 of step 812 and 7 ranks wait in bucket 2 of step 812.");
}

TEST(Diagnosis, CollectivesAfterTheBucketsAreNotBuckets) {
  World world(2);
  const auto expect_waiting = [&](int collective, const char* in) {
    for (RankView& view : world.ranks) {
      view.heartbeat.collective = collective;
      view.heartbeat.phase = static_cast<int32_t>(Phase::update);
    }
    EXPECT_HAS(world.text(), fmt::format("all 2 ranks have waited in {} of step 812", in));
  };
  expect_waiting(kBuckets - 1, "bucket 2");
  expect_waiting(kBuckets, "collective 0 after the buckets");
  expect_waiting(kBuckets + 1, "collective 1 after the buckets");
}

TEST(Diagnosis, DeviceWithAPendingCollectiveWaitsForOthers) {
  World world(2);
  for (const int rank : {0, 1}) world.set(rank, Phase::device);
  EXPECT_HAS(world.text(), "all 2 ranks have waited in bucket 2 of step 812");
  world[1].heartbeat.awaited_step = 813;
  EXPECT_HAS(world.text(),
             "rank 1 on host a has been waiting for the device for 41.0 s (all collectives of step 812 are "
             "done); rank 0 on host a waits in bucket 2 of step 812");
}

TEST(Diagnosis, NamesTheStepIfNoRankWaits) {
  World world(2);
  for (const int rank : {0, 1}) world.set(rank, Phase::data);
  EXPECT_HAS(world.text(), "ranks 0 and 1 on host a have been in the data loader for 41.0 s (step 812)");
}

TEST(Diagnosis, NamesARankThatEndedWhileOthersWait) {
  World world(2);
  world[1].left = true;
  world[1].heartbeat.alive_ns = ago(41);
  EXPECT_HAS(world.text(), "rank 1 on host a has ended; rank 0 on host a waits in bucket 2 of step 812");
}

TEST(Diagnosis, UnknownRanksAreCountedAndNotBlamed) {
  World world(4);
  for (const int rank : {1, 2, 3}) world[rank].heartbeat = {};
  EXPECT_HAS(world.text(),
             "rank 0 on host a has waited in bucket 2 of step 812 for 41.0 s; nothing is known about 3 other ranks");
}

TEST(Diagnosis, NamesNoBucketWithoutACollectiveCount) {
  World world(2);
  for (RankView& view : world.ranks) view.heartbeat.awaited_step = 0;
  EXPECT_HAS(world.text(), "all 2 ranks have waited in the allreduce of step 812 for");
  for (const int rank : {0, 1}) world.set(rank, Phase::replicas);
  EXPECT_HAS(world.text(), "all 2 ranks have waited in the comparison of replicas for");
}

TEST(Limits, FollowTheSlowestStep) {
  const WatchdogLimits limits;
  EXPECT_EQ(limit_of(Phase::allreduce, limits, 100ms), 60s);
  EXPECT_EQ(limit_of(Phase::data, limits, 10s), 200s);
  EXPECT_EQ(limit_of(Phase::evaluation, limits, 10s), 200s);
  EXPECT_EQ(limit_of(Phase::compute, limits, 0s), 300s);
  EXPECT_EQ(limit_of(Phase::start_up, limits, 10s), 300s);
  EXPECT_EQ(limit_of(Phase::saving, limits, 10s), 600s);
  EXPECT_EQ(limit_of(Phase::shutdown, limits, 10s), 600s);
}

TEST(Limits, AreTheRequestedOnesOrNone) {
  EXPECT_EQ(limit_of(Phase::allreduce, {.step = 3s}, 100s), 3s);
  EXPECT_EQ(limit_of(Phase::allreduce, {.step = 3s}, 0s), 3s);
  EXPECT_EQ(limit_of(Phase::allreduce, {.step = 0s}, 100s), std::nullopt);
  EXPECT_EQ(limit_of(Phase::start_up, {.start_up = 0s}, 100s), std::nullopt);
  EXPECT_EQ(limit_of(Phase::allreduce, {.start_up = 0s}, 0s), std::nullopt);
  EXPECT_EQ(limit_of(Phase::allreduce, {.start_up = 10s}, 0s), 60s);
  EXPECT_EQ(limit_of(Phase::saving, {.saving = 0s}, 100s), std::nullopt);
}

}  // namespace
}  // namespace ddp::testing
