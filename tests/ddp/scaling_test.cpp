// Predictions that are computed by hand.
#include "ddp/scaling.h"

#include "tests/ddp/sample_profile.h"

#include <gtest/gtest.h>

namespace ddp {
namespace {

using testing::sample_profile;

constexpr double kBytesOfMib = 1 << 20;
constexpr double kTicketMs = 1e-3;  // more than the ticket of two ranks takes
constexpr Workload kWeak{.batch_per_rank = 4, .caps = BucketCaps{.cap_mb = 1}};

// A ring of two hosts takes 4 ms for a bucket of 1 MiB.
Cluster two_hosts() {
  return {.ranks = 2, .network = {.ms_per_byte = 4 / kBytesOfMib}, .allreduce = Cluster::Allreduce::shm};
}

TEST(Scaling, OfOneRankHasNoCommunication) {
  const Scaling one = scaling_on(sample_profile(), {.network = {.latency_ms = 100}}, kWeak);
  EXPECT_DOUBLE_EQ(one.step_ms, 12);
  EXPECT_EQ(one.exposed_ms, 0);
  EXPECT_EQ(one.communication_ms, 0);
  EXPECT_DOUBLE_EQ(one.samples_per_second(), 4000.0 / 12);
  EXPECT_DOUBLE_EQ(efficiency(one, one), 1);
}

// Buckets are ready at 2, 6 and 9 ms, and done at 6, 10 and 14 ms: 4 ms after the pass.
TEST(Scaling, HidesCommunicationBehindThePass) {
  const Scaling one = scaling_on(sample_profile(), {}, kWeak), two = scaling_on(sample_profile(), two_hosts(), kWeak);
  EXPECT_NEAR(two.communication_ms, 12, kTicketMs);
  EXPECT_NEAR(two.exposed_ms, 4, kTicketMs);
  EXPECT_NEAR(two.step_ms, 16, kTicketMs);
  EXPECT_EQ(two.rings, 3);
  EXPECT_NEAR(efficiency(two, one), 0.75, kTicketMs);
  RunProfile half = sample_profile();
  half.gradient_bytes = 2;  // done at 4, 8 and 11 ms, then the trailer by itself
  EXPECT_NEAR(scaling_on(half, two_hosts(), kWeak).exposed_ms, 1, kTicketMs);
}

// Each of two passes has half of the samples and takes 5 ms; the second one has gradients ready at 6 and 8 ms.
TEST(Scaling, SumsAfterTheLastMicroBatch) {
  RunProfile profile = sample_profile();
  profile.micro_batches = 2;
  profile.compute_ms = 22;
  const StepPlan plan = plan_step(profile, two_hosts(), kWeak);
  EXPECT_DOUBLE_EQ(plan.passes_ms, 10);
  EXPECT_DOUBLE_EQ(plan.update_ms, 2);
  ASSERT_EQ(plan.buckets.size(), 3u);
  EXPECT_DOUBLE_EQ(plan.buckets[0].ready_ms, 6);
  EXPECT_DOUBLE_EQ(plan.buckets[2].ready_ms, 10);
  EXPECT_NEAR(scaling_on(profile, two_hosts(), kWeak).exposed_ms, 8, kTicketMs);
}

// A global batch of 4 on two ranks: a pass of 5 ms, the optimizer's 2 ms, and 13 - 5 ms of exposed communication.
TEST(Scaling, DividesAGlobalBatch) {
  const Scaling two = scaling_on(sample_profile(), two_hosts(), {.batch = 4, .caps = BucketCaps{.cap_mb = 1}});
  EXPECT_EQ(two.batch, 4);
  EXPECT_DOUBLE_EQ(two.compute_ms, 7);
  EXPECT_NEAR(two.step_ms, 7 + 8, kTicketMs);
  EXPECT_DOUBLE_EQ(two.memory.activations, 200);
  EXPECT_EQ((Workload{.batch = 5}).largest_shard_on(2), 3);
}

TEST(Scaling, OnOneHostHasTheLinkInside) {
  const Cluster host{.ranks = 2,
                     .ranks_per_host = 8,
                     .network = {.latency_ms = 1000},
                     .inside = {.ms_per_byte = 4 / kBytesOfMib},
                     .allreduce = Cluster::Allreduce::shm};
  EXPECT_NEAR(scaling_on(sample_profile(), host, kWeak).step_ms, 16, kTicketMs);
}

// Half of the steps take 12 ms, the others up to 24: the slower of two takes 5/3 * 12 in the mean over two uniform
// draws.
TEST(Scaling, WaitsForTheSlowestRank) {
  RunProfile profile = sample_profile();
  profile.spread = {{0, 1}, {1, 2}};
  const Scaling two = scaling_on(profile, {.ranks = 2, .allreduce = Cluster::Allreduce::shm}, kWeak);
  EXPECT_DOUBLE_EQ(two.straggler_ms, 8);
  EXPECT_DOUBLE_EQ(two.step_ms, 20);
}

TEST(Scaling, RanksOfAHostShareItsReading) {
  RunProfile profile = sample_profile();
  const Cluster host{.ranks = 4, .ranks_per_host = 4, .allreduce = Cluster::Allreduce::shm};
  profile.read_ms = 8;
  profile.workers = 2;  // 4 samples take 16 ms of a step of 12 ms
  EXPECT_DOUBLE_EQ(scaling_on(profile, host, kWeak).data_ms, 4);
  Workload slow = kWeak;
  slow.host_samples_per_second = 500;  // 16 samples take 32 ms
  EXPECT_DOUBLE_EQ(scaling_on(profile, host, slow).step_ms, 32);
}

// 4 ms of exposed communication hide as much of the wait.
TEST(Scaling, HidesTheMeasuredWaitForData) {
  RunProfile profile = sample_profile();
  profile.data_ms = 5;
  EXPECT_NEAR(scaling_on(profile, two_hosts(), kWeak).data_ms, 5, kTicketMs);  // samples in memory
  profile.read_ms = 1e-3;
  EXPECT_DOUBLE_EQ(scaling_on(profile, {}, kWeak).data_ms, 5);
  EXPECT_NEAR(scaling_on(profile, two_hosts(), kWeak).data_ms, 1, kTicketMs);
  profile.data_ms = 3;
  EXPECT_EQ(scaling_on(profile, two_hosts(), kWeak).data_ms, 0);
  EXPECT_DOUBLE_EQ(scaling_on(profile, {}, {.batch_per_rank = 8}).data_ms, 6);
}

// Three elements for each rank more.
TEST(Scaling, SumsATicketOfAllRanks) {
  RunProfile profile = sample_profile();
  profile.trailer = 10;
  const auto bytes = [&](int64_t ranks) {
    return plan_step(profile, {.ranks = ranks, .network = two_hosts().network}, kWeak).buckets.back().bytes;
  };
  EXPECT_EQ(bytes(1), kBytesOfMib + 4 * 10);
  EXPECT_EQ(bytes(1024), kBytesOfMib + 4 * (10 + 3 * 1023));
  profile.zero = true;
  EXPECT_EQ(bytes(1024), 4 * (10 + 3 * 1023));
}

TEST(Scaling, ShardsTheOptimizer) {
  RunProfile profile = sample_profile();
  profile.zero = true;
  const Scaling two = scaling_on(profile, two_hosts(), kWeak);
  EXPECT_DOUBLE_EQ(two.memory.optimizer, 100);
  // Half a ring for each bucket, done at 11 ms; then the gather of the weights, which nothing hides.
  EXPECT_NEAR(two.exposed_ms, 1 + 3 * 2, kTicketMs);
}

// The gather of each bucket's weights has the latency of the new link, not that of the measured one too.
TEST(Scaling, CountsTheLatencyOfAGatherOnce) {
  RunProfile profile = sample_profile();
  profile.zero = true;
  profile.ranks = profile.ranks_per_host = 2;
  profile.costs.link = {.latency_ms = 100};
  profile.costs.bucket_ms = 100;
  EXPECT_EQ(plan_step(profile, two_hosts(), {.batch_per_rank = 4}).buckets.size(), 3u + 1);
}

TEST(Scaling, TakesTheFastestBuckets) {
  Cluster cluster = two_hosts();
  EXPECT_EQ(scaling_on(sample_profile(), cluster, {.batch_per_rank = 4}).rings, 3);
  cluster.network.latency_ms = 100;
  EXPECT_EQ(scaling_on(sample_profile(), cluster, {.batch_per_rank = 4}).rings, 1);
  EXPECT_EQ(scaling_on(sample_profile(), cluster, kWeak).rings, 3);
}

TEST(Scaling, GrowsWithTheLatency) {
  for (const auto allreduce : {Cluster::Allreduce::nccl, Cluster::Allreduce::shm}) {
    double before = 0;
    for (const double latency : {0.0, 0.1, 1.0, 10.0}) {
      const Cluster cluster{.ranks = 64,
                            .ranks_per_host = 4,
                            .network = {.latency_ms = latency, .ms_per_byte = 1e-7},
                            .inside = {.ms_per_byte = 1e-8},
                            .allreduce = allreduce};
      const double step = scaling_on(sample_profile(), cluster, kWeak).step_ms;
      EXPECT_GE(step, before);
      before = step;
    }
    EXPECT_GT(before, 100);
  }
}

TEST(SpeedUp, CountsTheStepsOfALargerBatch) {
  Scaling one{.batch = 100, .step_ms = 10}, two{.ranks = 2, .batch = 200, .step_ms = 10};
  EXPECT_DOUBLE_EQ(speed_up(two, one, 100), 2 / 1.5);
  two.batch = 100;
  two.step_ms = 5;
  EXPECT_DOUBLE_EQ(speed_up(two, one, 100), 2);
}

TEST(MeasuredLinks, GiveTheMeasuredAllReduce) {
  RunProfile profile = sample_profile();
  EXPECT_FALSE(measured_inside(profile) || measured_network(profile));
  profile.costs.link = {.latency_ms = 0.6, .ms_per_mib = 2};
  profile.ranks = profile.ranks_per_host = 4;
  EXPECT_FALSE(measured_network(profile));
  Cluster cluster{.ranks = 4, .ranks_per_host = 4, .inside = measured_inside(profile).value()};
  EXPECT_NEAR(all_reduce_times(cluster, 3 * kBytesOfMib).total(), 0.6 + 6, 1e-9);
  profile.hosts = 4;
  profile.ranks_per_host = 1;
  profile.gradient_bytes = 2;  // a MiB of gradients has half a MiB in a collective
  EXPECT_FALSE(measured_inside(profile));
  profile.on_gpu = true;
  cluster = {.ranks = 4, .network = measured_network(profile).value()};
  EXPECT_NEAR(ring_ms(cluster.network, 4, 6, 1.5 * kBytesOfMib, false), 0.6 + 6, 1e-9);
}

// No bytes and all gradients take as long as measured, whether latency or bytes bound a piece.
TEST(MeasuredLinks, GiveTheMeasuredRingInPieces) {
  RunProfile profile = sample_profile();
  profile.ranks = profile.hosts = 4;
  for (const double latency : {0.0, 0.6, 60.0})
    for (const bool zero : {false, true}) {
      profile.zero = zero;
      profile.costs.link = {.latency_ms = latency, .ms_per_mib = 2};
      const Cluster cluster{
          .ranks = 4, .network = measured_network(profile).value(), .allreduce = Cluster::Allreduce::shm};
      const auto ms = [&](double mib) {
        return (zero ? reduce_scatter_times : all_reduce_times)(cluster, mib * kBytesOfMib).total();
      };
      EXPECT_NEAR(ms(0), latency, 1e-9);
      EXPECT_NEAR(ms(3), latency + 6, 1e-9);
      EXPECT_NEAR(ms(1), latency + 2, latency + 1e-9);
    }
}

TEST(MeasuredLinks, GiveTheMeasuredReduceScatter) {
  RunProfile profile = sample_profile();
  profile.zero = profile.on_gpu = true;
  profile.costs.link = {.latency_ms = 0.6, .ms_per_mib = 2};
  profile.ranks = profile.ranks_per_host = 4;
  Cluster cluster{.ranks = 4, .ranks_per_host = 4, .inside = measured_inside(profile).value()};
  EXPECT_NEAR(reduce_scatter_times(cluster, 3 * kBytesOfMib).total(), 0.6 + 6, 1e-9);
  profile.hosts = 4;
  profile.ranks_per_host = 1;
  cluster = {.ranks = 4, .network = measured_network(profile).value()};
  EXPECT_NEAR(reduce_scatter_times(cluster, 3 * kBytesOfMib).total(), 0.6 + 6, 1e-9);
}

}  // namespace
}  // namespace ddp
