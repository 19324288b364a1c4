// Law 1 on GPUs: N ranks train as one rank does. Rank 0 computes the result of one rank; the other ranks wait.
#include "data/subset.h"
#include "nn/models.h"
#include "tests/gpu/ranks_fixture.h"
#include "tests/gpu/training_data.h"
#include "tests/train/fixture.h"
#include "tests/train/small.h"

#include <array>
#include <functional>

namespace ddp::testing {
namespace {

class RanksOnGpu : public ::testing::TestWithParam<Transport> {
 protected:
  RankOnGpu self{GetParam()};
  Communicator& world = *self.communicator;
  const Network network = make_model("lenet", {28, 28, 1}, 10);

  void on_rank_0_alone(const std::function<void(Communicator&)>& work) {
    if (world.rank() == 0) {
      const auto one = std::move(make_local_communicators(1)[0]);
      const auto communicator = over_nccl(*self.device, *one);
      work(*communicator);
    }
    self.host->barrier();
  }

  std::vector<double> even() const { return std::vector<double>(world.size(), 1.0); }
  std::vector<double> uneven() const {
    std::vector<double> weights = even();
    weights[0] = 3;
    return weights;
  }
};
INSTANTIATE_TEST_SUITE_P(, RanksOnGpu, ::testing::ValuesIn(kTransports),
                         [](const auto& tested) { return name_of(tested.param); });

TEST_P(RanksOnGpu, OneStepMatchesOneRank) {
  constexpr std::array<int64_t, 3> kAfter = {0, 50, 200};
  const auto data = training_data();
  std::array<SixSteps, kAfter.size()> expected;
  on_rank_0_alone([&](Communicator& one) {
    Fixture fixture({.lr = 0.2}, network, *data, *self.device, *self.ops, one);
    int64_t at = 0;
    for (size_t i = 0; i < kAfter.size(); ++i) {
      fixture.losses(at, kAfter[i]);
      at = kAfter[i];
      expected[i] = six_steps(fixture, at);
      fixture.replica.load(expected[i].weights);
    }
  });

  for (const std::vector<double>& weights : {even(), uneven()}) {
    Fixture fixture({.lr = 0.2, .rank_weights = weights}, network, *data, *self.device, *self.ops, world);
    for (size_t i = 0; i < kAfter.size(); ++i) {
      std::vector<float> start = expected[i].weights;
      start.resize(fixture.replica.plan.gradients);
      self.host->wait(self.host->broadcast(DeviceSpan::of(start), 0));
      fixture.replica.load(start);
      const SixSteps steps = six_steps(fixture, kAfter[i]);
      fixture.replica.check_replicas();
      if (world.rank() != 0) continue;
      const Distance gradient = gradient_distance(fixture.replica.parameters, steps.gradients, expected[i].gradients);
      const double loss = loss_distance(steps.losses, expected[i].losses);
      EXPECT_LE(gradient.value, 1e-4) << gradient.tensor << " after " << kAfter[i] << " steps";
      EXPECT_LE(loss, 1e-5) << "after " << kAfter[i] << " steps";
      print_figure("gradients' error", gradient.value);
      print_figure("losses' error", loss);
    }
  }
}

// Every 20th step has a short batch. With seed 2 no ReLU input is so close to zero that rounding decides its sign.
TEST_P(RanksOnGpu, HundredLossesMatchOneRank) {
  const Subset data(training_data(), 5000);
  std::vector<double> expected;
  on_rank_0_alone([&](Communicator& one) {
    expected = Fixture({.seed = 2}, network, data, *self.device, *self.ops, one).losses(0, 100);
  });
  for (const size_t resident_bytes : {size_t{1} << 30, size_t{0}}) {
    Fixture fixture({.seed = 2, .device_data_bytes = resident_bytes}, network, data, *self.device, *self.ops, world);
    const auto losses = fixture.losses(0, 100);
    fixture.replica.check_replicas();
    if (world.rank() != 0) continue;
    const double distance = loss_distance(losses, expected);
    EXPECT_LE(distance, 1e-5) << (resident_bytes > 0 ? "resident" : "streamed");
    print_figure("losses' error", distance);
  }
}

// Fewer samples than the global batch, and fewer than ranks: ranks with empty shards join every collective.
TEST_P(RanksOnGpu, FewSamplesMatchOneRank) {
  for (const int64_t samples : {60, 3, 1}) {
    const Subset few(training_data(), samples);
    std::vector<double> expected;
    on_rank_0_alone(
        [&](Communicator& one) { expected = Fixture({}, network, few, *self.device, *self.ops, one).losses(0, 10); });
    Fixture fixture({}, network, few, *self.device, *self.ops, world);
    const auto losses = fixture.losses(0, 10);
    fixture.replica.check_replicas();
    if (world.rank() != 0) continue;
    const double distance = loss_distance(losses, expected);
    EXPECT_LE(distance, 1e-5) << samples << " samples";
    print_figure("losses' error", distance);
  }
}

class NormsOverRanksOnGpu : public RanksOnGpu {};
INSTANTIATE_TEST_SUITE_P(, NormsOverRanksOnGpu, ::testing::ValuesIn(kTransports),
                         [](const auto& tested) { return name_of(tested.param); });

// Synchronized batch norm and partitioned optimizer state against one rank with full state. Shards are uneven, last
// batches short, and with three samples some shards are empty.
TEST_P(NormsOverRanksOnGpu, PartitionedStateMatchesFullState) {
  for (const int64_t samples : {50, 3}) {
    const MemoryDataset data = small_data(samples);
    FixtureConfig config{.batch_size = 16,
                         .lr = 0.05,
                         .replica = {.optimizer = {.momentum = 0.9f, .nesterov = true, .weight_decay = 0.01f},
                                     .max_grad_norm = 0.5,
                                     .sync_bn = true,
                                     .seed = 5}};
    std::vector<double> expected;
    std::vector<float> expected_weights;
    on_rank_0_alone([&](Communicator& one) {
      Fixture fixture(config, norm_network(), data, *self.device, *self.ops, one);
      expected = fixture.losses(0, 6);
      expected_weights = dense_weights(fixture.replica);
    });
    config.replica.zero = true;
    Fixture fixture(config, norm_network(), data, *self.device, *self.ops, world);
    const auto losses = fixture.losses(0, 6);
    fixture.replica.check_replicas();
    const std::vector<float> found = dense_weights(fixture.replica);
    if (world.rank() != 0) continue;
    // Gradients are not compared: a rank has the sums of its partition only.
    const double weights = distance(found, expected_weights);
    const double loss = loss_distance(losses, expected);
    EXPECT_LE(weights, 1e-5) << samples << " samples";
    EXPECT_LE(loss, 1e-5) << samples << " samples";
    print_figure("weights' error", weights);
    print_figure("losses' error", loss);
  }
}

}  // namespace
}  // namespace ddp::testing
