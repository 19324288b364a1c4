#include "train/observers/try_buckets.h"

#include "tests/comm/forwarding_communicator.h"
#include "tests/train/small.h"
#include "tests/train/world.h"
#include "train/observers/measure_costs.h"

#include <gtest/gtest.h>

#include <chrono>
#include <numeric>
#include <thread>
#include <vector>

namespace ddp::testing {
namespace {

TEST(FastestTrial, LeavesTheFirstPlanForATwoPercentFasterOne) {
  EXPECT_EQ(fastest_trial({{10}}), 0u);
  EXPECT_EQ(fastest_trial({{10, 10, 10}, {9.9, 9.9, 9.9}}), 0u);
  EXPECT_EQ(fastest_trial({{10, 10, 10}, {9.7, 9.7, 9.7}}), 1u);
  EXPECT_EQ(fastest_trial({{10, 10, 10}, {9.7, 9.7, 9.7}, {1, 9, 9}}), 2u);
  EXPECT_EQ(fastest_trial({{10, 99, 10}, {1, 11, 11}}), 0u);  // one fast pass is no median
}

// Each collective takes a time that no cost knows: it passes in the launch.
class SlowLaunches final : public ForwardingCommunicator {
 public:
  using ForwardingCommunicator::ForwardingCommunicator;
  Sequence all_reduce(DeviceSpan span) override { return slowly(inner_.all_reduce(span)); }
  Sequence reduce_scatter(DeviceSpan span) override { return slowly(inner_.reduce_scatter(span)); }

 private:
  static Sequence slowly(Sequence n) {
    std::this_thread::sleep_for(std::chrono::milliseconds(4));
    return n;
  }
};

std::vector<BucketBegins> one_and_many(const Replica& r) {
  BucketBegins many(r.plan.parameter_counts.size());
  std::iota(many.begin(), many.end(), 0);
  return {many, {0}};
}

TEST(TriedBuckets, AreThoseOfTheFasterPasses) {
  const MemoryDataset data = small_data(40);
  run_world(2, [&](Communicator& rank, Device& device, Ops& ops) {
    SlowLaunches slow(rank);
    Fixture fixture({.batch_size = 16}, norm_network(), data, device, ops, slow);
    Replica& r = fixture.replica;
    const BucketBegins found = fastest_in_trials(r, data, fixture.sampler(), one_and_many(r));
    EXPECT_EQ(found, BucketBegins{0});
    EXPECT_EQ(r.plan.begins(), found);
    constexpr double kNoTime = 1e-3;  // ms
    EXPECT_EQ(fastest_in_trials(r, data, fixture.sampler(), one_and_many(r), kNoTime), one_and_many(r)[0]);
  });
}

// Against a replica that gets the same buckets without trials.
TEST(TriedBuckets, LeaveTheTrainingUnchanged) {
  const MemoryDataset data = small_data(40);
  for (const ReplicaConfig& config : {ReplicaConfig{}, ReplicaConfig{.max_grad_norm = 0.1, .zero = true},
                                      ReplicaConfig{.grad_dtype = GradDType::int8, .sync_bn = true}})
    run_world(2, [&](Communicator& rank, Device& device, Ops& ops) {
      const FixtureConfig trained{.batch_size = 16, .replica = config};
      Fixture tried(trained, norm_network(), data, device, ops, rank);
      measure_costs(tried.replica, data, tried.sampler());
      const BucketBegins found = fastest_in_trials(tried.replica, data, tried.sampler(), one_and_many(tried.replica));
      const std::vector<double> losses = tried.losses(0, 4);
      const std::vector<float> weights = tried.replica.download_weights();

      Fixture plain(trained, norm_network(), data, device, ops, rank);
      plain.replica.set_buckets(found);
      EXPECT_EQ(plain.losses(0, 4), losses);
      EXPECT_EQ(plain.replica.download_weights(), weights);
    });
}

}  // namespace
}  // namespace ddp::testing
