#include "train/observers/measure_costs.h"

#include "core/error.h"
#include "ddp/fastest_buckets.h"
#include "tests/train/small.h"
#include "tests/train/world.h"
#include "train/observers/plan_report.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <vector>

namespace ddp::testing {
namespace {

struct MeasuredRun {
  int world;
  int64_t batch = 16;
  ReplicaConfig replica = {};
  int micro_batches = 1;
};

std::vector<double> values_of(const StepCosts& costs) {
  std::vector<double> values = costs.ready_ms;
  values.insert(values.end(), {costs.compute_ms, costs.link.latency_ms, costs.link.ms_per_mib, costs.bucket_ms});
  return values;
}

// A batch of one sample leaves a rank of two without samples.
TEST(MeasureCosts, AreThoseOfAllRanks) {
  const MemoryDataset data = small_data(40);
  for (const MeasuredRun& c :
       {MeasuredRun{1}, MeasuredRun{2}, MeasuredRun{3, 16, {.sync_bn = true}}, MeasuredRun{2, 1},
        MeasuredRun{2, 16, {.zero = true}, 2}, MeasuredRun{2, 16, {.grad_dtype = GradDType::bf16}}})
    run_world(c.world, [&](Communicator& rank, Device& device, Ops& ops) {
      FixtureConfig config{.batch_size = c.batch, .replica = c.replica};
      config.step.micro_batches = c.micro_batches;
      Fixture fixture(config, norm_network(), data, device, ops, rank);
      const Replica& r = fixture.replica;
      const StepCosts costs = measure_costs(fixture.replica, data, fixture.sampler());
      ASSERT_EQ(costs.ready_ms.size(), r.plan.parameter_counts.size());
      EXPECT_TRUE(std::ranges::is_sorted(costs.ready_ms));
      EXPECT_GT(costs.ready_ms.front(), 0);
      EXPECT_GT(costs.ready_ms.back(), costs.ready_ms.front());
      EXPECT_GE(costs.compute_ms, costs.ready_ms.back());
      EXPECT_EQ(costs.link.ms(1000) > 0, c.world > 1);
      const std::vector<double> mine = values_of(costs);
      std::vector<double> first = mine;
      if (rank.rank() > 0) std::ranges::fill(first, 0);
      rank.all_reduce_host(first);
      EXPECT_EQ(mine, first);
      EXPECT_TRUE(std::ranges::all_of(mine, [](double ms) { return std::isfinite(ms) && ms >= 0; }));

      const bool rides = r.reducer.trailer_in_last_bucket();
      fixture.replica.set_buckets(robust_buckets(r.plan, costs, rides));
      const std::string report = plan_report(fixture.replica, data, fixture.sampler(), {}, costs);
      EXPECT_EQ(report.find("\npredicted exposed communication: ") != report.npos, c.world > 1) << report;
      EXPECT_EQ(report.find("\nlink: latency ") != report.npos, c.world > 1) << report;
    });
}

// Three steps, the measurement, and three steps.
TEST(MeasureCosts, LeaveTheTrainingUnchanged) {
  const MemoryDataset data = small_data(40);
  for (const bool zero : {false, true})
    run_world(2, [&](Communicator& rank, Device& device, Ops& ops) {
      std::vector<std::vector<float>> weights;
      std::vector<std::vector<double>> losses;
      for (const bool measured : {false, true}) {
        Fixture fixture({.batch_size = 16, .replica = {.zero = zero}}, norm_network(), data, device, ops, rank);
        const Replica& r = fixture.replica;
        if (measured) measure_costs(fixture.replica, data, fixture.sampler());
        losses.push_back(fixture.losses(0, 3));
        if (measured) measure_costs(fixture.replica, data, fixture.sampler());
        const auto more = fixture.losses(3, 6);
        losses.back().insert(losses.back().end(), more.begin(), more.end());
        weights.push_back(r.download_weights());
        for (const float* stats : {r.running_stats(), r.eval_stats()}) {
          const auto values = r.download_stats(stats);
          weights.back().insert(weights.back().end(), values.begin(), values.end());
        }
      }
      EXPECT_EQ(weights[0], weights[1]);
      EXPECT_EQ(losses[0], losses[1]);
    });
}

// The ranks of a host add in rank order. The squared norm that clips sharded gradients is summed by bucket.
TEST(SetBuckets, ChangesNoBitsOnOneHost) {
  const MemoryDataset data = small_data(40);
  for (const ReplicaConfig& config :
       {ReplicaConfig{.max_grad_norm = 0.1}, ReplicaConfig{.zero = true}, ReplicaConfig{.grad_dtype = GradDType::bf16}})
    run_world(3, [&](Communicator& rank, Device& device, Ops& ops) {
      std::vector<std::vector<float>> weights;
      for (const int buckets : {0, 1, 2, 1000}) {  // 0: those of the constant sizes
        ReplicaConfig replica = config;
        replica.optimizer.momentum = 0.9f;
        Fixture fixture({.batch_size = 16, .replica = replica}, norm_network(), data, device, ops, rank);
        Replica& r = fixture.replica;
        std::vector<ParameterId> begins(std::min<size_t>(buckets, r.plan.parameter_counts.size()));
        std::iota(begins.begin(), begins.end(), 0);
        if (buckets > 0) {
          r.set_buckets(begins);
          EXPECT_EQ(r.plan.buckets.size(), begins.size());
          EXPECT_EQ(r.reducer.collectives(), std::ssize(begins) + (r.reducer.trailer_in_last_bucket() ? 0 : 1));
        }
        fixture.losses(0, 4);
        r.check_replicas();
        weights.push_back(r.download_weights());
      }
      for (const auto& other : weights) EXPECT_EQ(other, weights[0]);
    });
}

TEST(SetBuckets, AreTheSameOnAllRanks) {
  const MemoryDataset data = small_data(40);
  run_world(2, [&](Communicator& rank, Device& device, Ops& ops) {
    Fixture fixture({.batch_size = 16}, norm_network(), data, device, ops, rank);
    EXPECT_THROW(fixture.replica.set_buckets(std::vector<ParameterId>{0, 1 + rank.rank()}), CollectiveError);
  });
}

}  // namespace
}  // namespace ddp::testing
