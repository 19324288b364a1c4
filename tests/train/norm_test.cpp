// Networks with batch norms, residual sums and dropout; ranks are threads on the reference ops.
#include "core/bf16.h"
#include "tests/parity/centre.h"
#include "tests/train/faults.h"
#include "tests/train/flipped_bit.h"
#include "tests/train/small.h"
#include "tests/train/world.h"
#include "train/evaluation/evaluation.h"
#include "train/step/zero_gradients.h"
#include "train/trainer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <string>
#include <vector>

namespace ddp::testing {
namespace {

constexpr Augmentation kAugmentation{.alternate_flip = true, .crop_padding = 2};

class Norms : public ::testing::TestWithParam<int> {
 protected:
  // Of the first norm, whose input does not depend on other norms.
  static double first_stats_distance(std::span<const float> actual, std::span<const float> expected) {
    return stats_distance(std::span(norms).first(1), actual, expected).value;
  }
  static inline const std::vector<Parameter> parameters = parameters_of(norm_network());
  static inline const std::vector<BatchNormState> norms = batch_norm_states_of(norm_network());
};

// Shards are uneven, last batches short, and with three samples some shards are empty.
TEST_P(Norms, SyncedResultsAreEqualAtEveryWorldSize) {
  for (const int64_t samples : {50, 3}) {
    const MemoryDataset data = small_data(samples);
    const FixtureConfig config{
        .batch_size = 16, .lr = 0.05, .replica = {.sync_bn = true, .seed = 5, .augmentation = kAugmentation}};
    const Result one = train_world(1, config, norm_network(), data, 8);
    const Result many = train_world(GetParam(), config, norm_network(), data, 8);
    EXPECT_LE(loss_distance(many.losses, one.losses), 1e-5) << samples;
    EXPECT_LE(gradient_distance(parameters, many.gradients, one.gradients).value, 1e-4) << samples;
    EXPECT_LE(stats_distance(norms, many.state, one.state).value, 1e-5) << samples;
    EXPECT_NE(one.losses.front(), one.losses.back());
  }
}

// Each rank normalizes by its own shard; the running statistics are those of the global batch.
TEST_P(Norms, LocalNormsKeepReplicasEqual) {
  const MemoryDataset data = small_data(50);
  const FixtureConfig config{.batch_size = 16, .lr = 0.05};
  const Result one = train_world(1, config, norm_network(), data, 1);
  const Result many = train_world(GetParam(), config, norm_network(), data, 1);
  EXPECT_LE(first_stats_distance(many.state, one.state), 1e-5);
  if (GetParam() > 1) {
    EXPECT_GT(gradient_distance(parameters, many.gradients, one.gradients).value, 1e-3);
  }
}

// The shards of the ranks are the micro-batches of one rank: both normalize each by itself. Each parameter has its own
// bucket, which leaves as soon as its gradient is announced.
TEST_P(Norms, LocalNormsEqualMicroBatchesOfOneRank) {
  const MemoryDataset data = small_data(48);
  const BucketCaps caps{.cap_mb = 1e-6, .first_cap_mb = 1e-6};
  const FixtureConfig ranks{.batch_size = 12, .lr = 0.05, .replica = {.caps = caps}},
      parts{.batch_size = 12, .lr = 0.05, .step = {.micro_batches = GetParam()}};
  const Result one = train_world(1, parts, norm_network(), data, 8);
  const Result many = train_world(GetParam(), ranks, norm_network(), data, 8);
  EXPECT_LE(loss_distance(many.losses, one.losses), 1e-5);
  EXPECT_LE(gradient_distance(parameters, many.gradients, one.gradients).value, 1e-4);
  EXPECT_LE(stats_distance(norms, many.state, one.state).value, 1e-5);
}

TEST_P(Norms, MicroBatchesAreEqualAtEveryWorldSize) {
  const MemoryDataset data = small_data(50);
  const FixtureConfig config{.batch_size = 16, .lr = 0.05, .replica = {.sync_bn = true}, .step = {.micro_batches = 3}};
  const Result one = train_world(1, config, norm_network(), data, 8);
  const Result many = train_world(GetParam(), config, norm_network(), data, 8);
  EXPECT_LE(loss_distance(many.losses, one.losses), 1e-5);
  EXPECT_LE(gradient_distance(parameters, many.gradients, one.gradients).value, 1e-4);
}

// The sums of the micro-batches of a step make its running statistics.
TEST_P(Norms, MicroBatchesGiveTheStatisticsOfOneBatch) {
  const MemoryDataset data = small_data(50);
  FixtureConfig config{.batch_size = 16};
  const Result whole = train_world(GetParam(), config, norm_network(), data, 1);
  config.step.micro_batches = 3;
  const Result parts = train_world(GetParam(), config, norm_network(), data, 1);
  EXPECT_LE(first_stats_distance(parts.state, whole.state), 1e-5);
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

TEST(Replicas, CheckNamesTheTensorOfAFlippedBit) {
  for (const int size : {2, 3}) run_world(size, expect_a_flipped_bit_is_named);
}

TEST_P(Norms, PartitionedStateMatchesFullState) {
  const MemoryDataset data = small_data(50);
  for (const OptimizerDesc& optimizer : {OptimizerDesc{.kind = OptimizerDesc::Kind::adam, .weight_decay = 0.01f},
                                         OptimizerDesc{.momentum = 0.9f, .nesterov = true, .weight_decay = 0.01f}}) {
    FixtureConfig config{
        .batch_size = 16,
        .lr = 0.01,
        .replica = {.optimizer = optimizer, .all_decay = false, .max_grad_norm = 0.5, .sync_bn = true}};
    std::vector<std::vector<double>> losses;
    std::vector<std::vector<float>> weights;
    for (const bool zero : {false, true}) {
      config.replica.zero = zero;
      run_world(GetParam(), [&](Communicator& c, Device& device, Ops& ops) {
        Fixture fixture(config, norm_network(), data, device, ops, c);
        const auto found = fixture.losses(0, 8);
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

// The first update of each parameter. The gradients that are summed in bf16 are first scaled by `scale`.
std::vector<float> first_update(int world, const FixtureConfig& config, float scale = 1) {
  const MemoryDataset data = small_data(50);
  const std::vector<Parameter> parameters = parameters_of(norm_network());
  std::vector<float> update(flat_count(parameters));
  run_world(world, [&](Communicator& c, Device& device, Ops& ops) {
    FaultyCommunicator scaling(c, [scale](DeviceSpan span) {
      auto* const values = static_cast<uint16_t*>(span.data);
      for (int64_t i = 0; span.dtype == DType::bf16 && i < span.count; ++i)
        values[i] = bf16_of_float(scale * float_of_bf16(values[i]));
      return true;
    });
    Fixture fixture(config, norm_network(), data, device, ops, scaling);
    const Replica& r = fixture.replica;
    const std::vector<float> before = r.download_weights();
    fixture.losses(0, 1);
    r.check_replicas();
    const std::vector<float> after = r.download_weights();
    if (c.rank() != 0) return;
    for (size_t p = 0; p < parameters.size(); ++p)
      for (int64_t i = 0; i < parameters[p].count; ++i) {
        const int64_t at = r.parameters[p].offset + i;
        update[parameters[p].offset + i] = after[at] - before[at];
      }
  });
  return update;
}

TEST_P(Norms, Bf16GradientsAreRoundedAndNotScaled) {
  constexpr double kBound = 0x1p-6;  // four units in the last place
  FixtureConfig config{.batch_size = 16, .lr = 0.05, .replica = {.sync_bn = true}};
  const std::vector<float> f32 = first_update(GetParam(), config);
  const auto off = [&](float scale) {
    return gradient_distance(parameters, first_update(GetParam(), config, scale), f32);
  };
  config.replica.grad_dtype = GradDType::bf16;
  for (const bool zero : {false, true}) {
    config.replica.zero = zero;
    const Distance d = off(1);
    EXPECT_LE(d.value, kBound) << d.tensor;
    EXPECT_GT(d.value, 1e-4);
  }
  config.replica.zero = false;
  for (const float scale : {0.95f, 1.05f}) EXPECT_GT(off(scale).value, 2 * kBound) << scale;
}

// The statistics of all samples in one batch. Of those, only the first norm's are those of small batches too.
std::vector<float> stats_of_one_batch(FixtureConfig config, const Dataset& data, std::span<const float> weights) {
  config.batch_size = data.size();
  std::vector<float> stats;
  run_world(1, [&](Communicator& c, Device& device, Ops& ops) {
    Fixture fixture(config, norm_network(), data, device, ops, c);
    fixture.replica.load(weights);
    centre_statistics(fixture.replica, data, data.size());
    stats = fixture.replica.download_stats(fixture.replica.running_stats());
  });
  return stats;
}

// Recomputed statistics are equal at every world size and do not depend on the last step's epoch. The evaluation uses
// them and counts all batches. The recomputation changes no training state.
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
      EXPECT_EQ(evaluation.correct, evaluator.count_classes().correct());
      *r.block.epoch() = 7;
      evaluate_all(evaluator);
      EXPECT_EQ(r.download_stats(r.eval_stats()), found);

      Evaluator plain(r, on_device, sequential);
      EXPECT_GT(std::abs(evaluate_all(plain).loss - evaluation.loss), 1e-3);
      r.load_running_stats(found);
      EXPECT_EQ(evaluate_all(plain).loss, evaluation.loss);
      if (c.rank() != 0) return;
      EXPECT_GT(distance(found, state), 0.1);
      if (world == 1) {
        expected = found;
        loss = evaluation.loss;
        EXPECT_LE(first_stats_distance(found, stats_of_one_batch(config, data, weights)), 1e-5);
      }
      EXPECT_LE(stats_distance(norms, found, expected).value, 1e-5);
      EXPECT_NEAR(evaluation.loss, loss, 1e-5 * loss);
      EXPECT_EQ(evaluation.statistics_samples, 50);
    });
}

INSTANTIATE_TEST_SUITE_P(, Norms, ::testing::Values(1, 2, 3, 4));

// That of the shortcut is the gradient of the shift of the norm that adds it. Those before a norm have no gradient,
// which is no sign of a parameter that does not learn.
TEST(Norm, GivesItsSkipTheGradientOfTheBias) {
  const MemoryDataset data = small_data(16);
  for (const int micro_batches : {1, 2})
    run_world(1, [&](Communicator& c, Device& device, Ops& ops) {
      Fixture fixture({.batch_size = 8, .step = {.micro_batches = micro_batches}}, norm_network(), data, device, ops,
                      c);
      fixture.losses(0, 1);
      const Replica& r = fixture.replica;
      const std::vector<float> gradients = r.download_gradients();
      const auto of = [&](const std::string& name) {
        const auto p = std::ranges::find(r.parameters, name, &Parameter::name);
        return std::vector(gradients.begin() + p->offset, gradients.begin() + p->offset + p->count);
      };
      EXPECT_EQ(of("4.0.bias"), of("4.5.bias"));
      EXPECT_EQ(of("4.1.bias"), std::vector<float>(6));
      EXPECT_EQ(zero_gradients_of(r), std::vector<std::string>());
    });
}

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
