// Networks with batch norms, residual sums and dropout; ranks are threads on the reference ops.
#include "tests/train/small.h"
#include "tests/train/world.h"
#include "train/evaluation.h"
#include "train/trainer.h"

#include <gtest/gtest.h>

namespace ddp::testing {
namespace {

constexpr Augmentation kAugmentation{.alternate_flip = true, .crop_padding = 2};

class Norms : public ::testing::TestWithParam<int> {};

// Shards are uneven, last batches short, and with three samples some shards are empty.
TEST_P(Norms, SyncedResultsAreEqualAtEveryWorldSize) {
  for (const int64_t samples : {50, 3}) {
    const MemoryDataset data = small_data(samples);
    const FixtureConfig config{
        .batch_size = 16, .lr = 0.05, .replica = {.sync_bn = true, .seed = 5, .augmentation = kAugmentation}};
    const Result one = train_world(1, config, norm_network(), data, 8);
    const Result many = train_world(GetParam(), config, norm_network(), data, 8);
    EXPECT_LE(loss_distance(many.losses, one.losses), 1e-5) << samples;
    EXPECT_LE(distance(many.gradients, one.gradients), 1e-4) << samples;
    EXPECT_LE(distance(many.state, one.state), 1e-5) << samples;
    EXPECT_NE(one.losses.front(), one.losses.back());
  }
}

// Each rank normalizes by its own shard; the running statistics are those of the global batch.
TEST_P(Norms, LocalNormsKeepReplicasEqual) {
  const MemoryDataset data = small_data(50);
  const FixtureConfig config{.batch_size = 16, .lr = 0.05};
  const Result one = train_world(1, config, norm_network(), data, 1);
  const Result many = train_world(GetParam(), config, norm_network(), data, 1);
  const int64_t first_norm = 2 * 4;  // state size of the first norm; its input does not depend on other norms
  EXPECT_LE(distance(std::span(many.state).first(first_norm), std::span(one.state).first(first_norm)), 1e-5);
  if (GetParam() > 1) {
    EXPECT_GT(distance(many.gradients, one.gradients), 1e-3);
  }
}

TEST_P(Norms, MicroBatchesAreEqualAtEveryWorldSize) {
  const MemoryDataset data = small_data(50);
  const FixtureConfig config{.batch_size = 16, .lr = 0.05, .replica = {.sync_bn = true}, .step = {.micro_batches = 3}};
  const Result one = train_world(1, config, norm_network(), data, 8);
  const Result many = train_world(GetParam(), config, norm_network(), data, 8);
  EXPECT_LE(loss_distance(many.losses, one.losses), 1e-5);
  EXPECT_LE(distance(many.gradients, one.gradients), 1e-4);
}

// Without batch statistics the micro-batches equal one large batch. With 3 samples some micro-batches are empty on
// every rank.
TEST_P(Norms, MicroBatchesWithoutNormsEqualOneBatch) {
  for (const int64_t samples : {50, 3}) {
    const MemoryDataset data = small_data(samples);
    const FixtureConfig whole{.batch_size = 16, .lr = 0.1},
        parts{.batch_size = 16, .lr = 0.1, .step = {.micro_batches = 4}};
    const Result one = train_world(1, whole, small_network(), data, 8);
    const Result many = train_world(GetParam(), parts, small_network(), data, 8);
    EXPECT_LE(loss_distance(many.losses, one.losses), 1e-5) << samples;
    EXPECT_LE(distance(many.weights, one.weights), 1e-5) << samples;
  }
}

// Adam runs few steps, because it makes a full step even of a gradient that is only rounding, such as that of a bias
// before a norm.
TEST_P(Norms, PartitionedStateMatchesFullState) {
  const MemoryDataset data = small_data(50);
  struct Case {
    OptimizerDesc optimizer;
    int64_t steps;
  };
  for (const auto& [optimizer, steps] : {Case{{.kind = OptimizerDesc::Kind::adam, .weight_decay = 0.01f}, 1},
                                         Case{{.momentum = 0.9f, .nesterov = true, .weight_decay = 0.01f}, 8}}) {
    FixtureConfig config{
        .batch_size = 16,
        .lr = 0.01,
        .replica = {.optimizer = optimizer, .all_decay = false, .max_grad_norm = 0.5, .sync_bn = true}};
    std::vector<std::vector<double>> losses;
    std::vector<std::vector<float>> weights;
    for (const bool zero : {false, true}) {
      config.replica.zero = zero;
      run_world(GetParam(), [&, &steps = steps](Communicator& c, Device& device, Ops& ops) {
        Fixture fixture(config, norm_network(), data, device, ops, c);
        const auto found = fixture.losses(0, steps);
        fixture.replica.check_replicas();
        if (c.rank() != 0) return;
        losses.push_back(found);
        weights.push_back(dense_weights(fixture.replica));
      });
    }
    EXPECT_LE(loss_distance(losses[1], losses[0]), 1e-6);
    EXPECT_LE(distance(weights[1], weights[0]), 1e-6);
  }
}

TEST_P(Norms, Bf16GradientsKeepReplicasEqual) {
  const MemoryDataset data = small_data(50);
  FixtureConfig config{.batch_size = 16, .lr = 0.05, .replica = {.sync_bn = true}};
  const Result f32 = train_world(GetParam(), config, norm_network(), data, 4);
  config.replica.grad_dtype = DType::bf16;
  for (const bool zero : {false, true}) {
    config.replica.zero = zero;
    const Result bf16 = train_world(GetParam(), config, norm_network(), data, 4);
    EXPECT_LE(loss_distance(bf16.losses, f32.losses), 0.02);
    EXPECT_NE(bf16.losses, f32.losses);
  }
}

// Recomputed statistics are equal at every world size and do not depend on the last step's epoch. The recomputation
// changes no training state.
TEST_P(Norms, RecomputedStatisticsAreEqualAtEveryWorldSize) {
  const MemoryDataset data = small_data(50);
  const FixtureConfig config{.batch_size = 16, .lr = 0.05, .replica = {.sync_bn = true, .augmentation = kAugmentation}};
  std::vector<float> expected;
  double loss = 0;
  for (const int world : {1, GetParam()})
    run_world(world, [&](Communicator& c, Device& device, Ops& ops) {
      Fixture fixture(config, norm_network(), data, device, ops, c);
      fixture.losses(0, 4);
      Replica& r = fixture.replica;
      const auto weights = r.download_weights(), state = r.download_stats(r.running_stats());
      const DistributedSampler sequential(data.size(), 16, Order::sequential, 0, c.rank(),
                                          std::vector<double>(c.size(), 1.0));
      DeviceDataset on_device(device, data, fixture.largest(), {});
      PreciseBn precise_bn(r, data, sequential, {});
      Evaluator evaluator(r, on_device, sequential, &precise_bn);
      const Evaluation evaluation = evaluate_all(evaluator);
      EXPECT_EQ(r.download_weights(), weights);
      EXPECT_EQ(r.download_stats(r.running_stats()), state);
      const auto found = r.download_stats(r.eval_stats());
      *r.block.epoch() = 7;
      evaluate_all(evaluator);
      EXPECT_EQ(r.download_stats(r.eval_stats()), found);
      if (c.rank() != 0) return;
      EXPECT_GT(distance(found, state), 0.1);
      if (world == 1) {
        expected = found;
        loss = evaluation.loss;
      }
      EXPECT_LE(distance(found, expected), 1e-5);
      EXPECT_NEAR(evaluation.loss, loss, 1e-5 * loss);
      EXPECT_EQ(evaluation.statistics_samples, 50);
    });
}

INSTANTIATE_TEST_SUITE_P(, Norms, ::testing::Values(1, 2, 3, 4));

// Seed, epoch and sample decide the dropout mask.
TEST(Dropout, FollowsTheSeed) {
  const MemoryDataset data = small_data(50);
  FixtureConfig config{.batch_size = 16, .lr = 0.05, .replica = {.seed = 1}};
  const Result first = train_world(1, config, norm_network(), data, 3);
  EXPECT_EQ(train_world(1, config, norm_network(), data, 3).losses, first.losses);
  config.replica.seed = 2;
  EXPECT_NE(train_world(1, config, norm_network(), data, 3).losses, first.losses);
}

// The weights do not change, so that the losses show the images alone.
TEST(Augmentation, ChangesTrainingImagesInEveryEpochAndNoEvaluation) {
  const MemoryDataset data = small_data(16);
  run_world(1, [&](Communicator& c, Device& device, Ops& ops) {
    const auto losses = [&](const Augmentation& augmentation, uint64_t seed) {
      Fixture fixture({.batch_size = 16, .lr = 0, .replica = {.seed = seed, .augmentation = augmentation}},
                      small_network(), data, device, ops, c);
      std::vector<double> found = fixture.losses(0, 3);  // three epochs
      DeviceDataset on_device(device, data, fixture.largest(), {});
      Evaluator evaluator(fixture.replica, on_device, fixture.sampler());
      found.push_back(evaluate_all(evaluator).loss);
      return found;
    };
    const auto without = losses({}, 1), flipped = losses({.hflip = 1}, 1),
               alternate = losses({.alternate_flip = true}, 1), cropped = losses({.crop_padding = 2}, 1);
    for (const auto& found : {flipped, alternate, cropped}) {
      EXPECT_GT(std::abs(found[0] - without[0]), 1e-4);
      EXPECT_NEAR(found[3], without[3], 2e-6);  // of evaluation
    }
    EXPECT_NEAR(without[1], without[0], 2e-6);
    EXPECT_NEAR(flipped[1], flipped[0], 2e-6);
    EXPECT_GT(std::abs(alternate[1] - alternate[0]), 1e-4);
    EXPECT_NEAR(alternate[2], alternate[0], 2e-6);
    EXPECT_GT(std::abs(cropped[1] - cropped[0]), 1e-4);
    EXPECT_GT(std::abs(losses({.crop_padding = 2}, 2)[0] - cropped[0]), 1e-4);
  });
}

}  // namespace
}  // namespace ddp::testing
