// The simulation against the formula: where the formula's assumptions hold, and where the two part.
#include "ddp/simulation.h"

#include "tests/ddp/sample_profile.h"

#include <gtest/gtest.h>

namespace ddp {
namespace {

using testing::sample_profile;

constexpr Workload kFourEach{.batch_per_rank = 4, .caps = BucketCaps{.cap_mb = 1}};

Cluster large(Cluster::Allreduce allreduce) {
  return {.ranks = 1024,
          .ranks_per_host = 8,
          .network = {.latency_ms = 0.005, .ms_per_byte = 1 / 25e6},
          .inside = {.latency_ms = 0.001, .ms_per_byte = 1 / 100e6},
          .allreduce = allreduce};
}

// The simulated time of a step over that of the formula.
double ratio(const RunProfile& profile, const Cluster& cluster, const Workload& workload = kFourEach) {
  const Scaling formula = scaling_on(profile, cluster, workload);
  return simulate_scaling(profile, cluster, workload, formula.data_ms).value() / formula.step_ms;
}

TEST(Simulation, OfOneRankIsItsComputing) { EXPECT_NEAR(ratio(sample_profile(), {}), 1, 1e-12); }

TEST(Simulation, AgreesWithTheFormulaWithoutSlowRanks) {
  for (const auto allreduce : {Cluster::Allreduce::nccl, Cluster::Allreduce::shm}) {
    EXPECT_NEAR(ratio(sample_profile(), large(allreduce)), 1, 0.1);
    Cluster slow = large(allreduce);  // communication takes longer than computing
    slow.network.ms_per_byte *= 100;
    EXPECT_GT(scaling_on(sample_profile(), slow, kFourEach).exposed_ms, 15);
    EXPECT_NEAR(ratio(sample_profile(), slow), 1, 0.1);
    slow.ranks_per_host = 1;
    slow.ranks = 64;
    EXPECT_NEAR(ratio(sample_profile(), slow), 1, 0.1);
  }
}

TEST(Simulation, AgreesWithTheFormulaOnSlowRanks) {
  RunProfile profile = sample_profile();
  profile.spread = {{0, 0.95}, {0.5, 1}, {0.99, 1.1}, {1, 1.5}};
  for (const auto allreduce : {Cluster::Allreduce::nccl, Cluster::Allreduce::shm})
    EXPECT_NEAR(ratio(profile, large(allreduce)), 1, 0.1);
}

// The formula has the mean factor of the slowest rank in every step. Here half of the steps have a rank that is ten
// times as slow: their communication is hidden, and that of the other half is not. The mean of both is longer than a
// step with the mean factor.
TEST(Simulation, PartsFromTheFormulaWhereOnlySomeStepsHaveASlowRank) {
  RunProfile profile = sample_profile();
  profile.spread = {{0, 1}, {0.989, 1}, {0.98901, 10}, {1, 10}};
  const Cluster cluster{
      .ranks = 64, .network = {.latency_ms = 0.16, .ms_per_byte = 1 / 25e6}, .allreduce = Cluster::Allreduce::shm};
  const StepPlan plan = plan_step(profile, cluster, kFourEach);
  const double simulated = simulate_steps(plan, cluster, profile.spread, 0, 200);
  EXPECT_NEAR(simulated / scaling_on(profile, cluster, kFourEach).step_ms, 1.12, 0.07);
}

TEST(Simulation, RefusesTooManyMessages) {
  Cluster cluster = large(Cluster::Allreduce::shm);
  cluster.ranks = 1 << 16;
  cluster.ranks_per_host = 1;
  EXPECT_FALSE(simulate_scaling(sample_profile(), cluster, kFourEach, 0));
}

TEST(Simulation, IsAFunctionOfItsSeed) {
  RunProfile profile = sample_profile();
  profile.spread = {{0, 1}, {1, 2}};
  const Cluster cluster{.ranks = 4, .network = {.latency_ms = 1}};
  const StepPlan plan = plan_step(profile, cluster, kFourEach);
  EXPECT_EQ(simulate_steps(plan, cluster, profile.spread, 0, 3, 1),
            simulate_steps(plan, cluster, profile.spread, 0, 3, 1));
  EXPECT_NE(simulate_steps(plan, cluster, profile.spread, 0, 3, 1),
            simulate_steps(plan, cluster, profile.spread, 0, 3, 2));
}

}  // namespace
}  // namespace ddp
