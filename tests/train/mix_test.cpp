// Mixed samples, erased boxes and weights of labels do not depend on ranks and micro-batches: one step from equal
// weights agrees. Batches of eight of 26 samples: the last one has two, so that some shards are empty.
#include "tests/train/small.h"
#include "tests/train/world.h"

#include <gtest/gtest.h>

#include <vector>

namespace ddp::testing {
namespace {

constexpr double kWorldBound = 5e-5;  // of each tensor's norm
constexpr int64_t kWholeStep = 1, kShortStep = 3;

struct MixedStep {
  double loss = 0;
  std::vector<float> gradients, change;
};

struct Trial {
  const char* name;
  ReplicaConfig replica;
};

const std::vector<Trial> kTrials{
    {"mixup", {.mix = {.mixup_alpha = 0.8}, .seed = 3}},
    {"CutMix", {.label_smoothing = 0.1f, .mix = {.cutmix_alpha = 1}, .seed = 1}},
    {"both, erased", {.mix = {0.4, 1}, .seed = 2, .augmentation = {.hflip = 0.5f, .crop_padding = 1, .erase = 0.5f}}},
    {"weights, clipped", {.max_grad_norm = 0.1, .class_weights = {0.25f, 4, 1, 2}}},
    {"weights, sharded", {.max_grad_norm = 0.1, .zero = true, .class_weights = {0.25f, 4, 1, 2}}}};

MixedStep step_of(const Trial& trial, int ranks, const std::vector<double>& weights, int micro_batches, int64_t step) {
  const MemoryDataset data = small_data(26);
  MixedStep result;
  run_world(ranks, [&](Communicator& c, Device& device, Ops& ops) {
    FixtureConfig config{.batch_size = 8, .lr = 0.5, .seed = 1, .rank_weights = weights, .replica = trial.replica};
    config.step.micro_batches = micro_batches;
    Fixture fixture(config, small_network(), data, device, ops, c);
    const std::vector<float> before = dense_weights(fixture.replica);
    const auto losses = fixture.losses(step, step + 1);
    fixture.replica.check_replicas();
    std::vector<float> after = dense_weights(fixture.replica);
    for (size_t i = 0; i < after.size(); ++i) after[i] -= before[i];
    const auto gradients = download_gradients(fixture.replica);
    if (c.rank() == 0) result = {losses.at(0), gradients, after};
  });
  return result;
}

TEST(MixInWorlds, OneStepIsEqualForAllRanksAndMicroBatches) {
  struct World {
    int ranks;
    std::vector<double> weights;
    int micro_batches;
  };
  const std::vector<World> worlds{{2, {}, 1}, {3, {}, 1}, {2, {3, 1}, 1}, {1, {}, 3}, {2, {3, 1}, 4}};
  const Network network = small_network();
  std::vector<Parameter> dense = parameters_of(network);
  int64_t offset = 0;
  for (Parameter& p : dense) p.offset = std::exchange(offset, offset + p.count);
  for (const Trial& trial : kTrials)
    for (const int64_t step : {kWholeStep, kShortStep}) {
      const MixedStep alone = step_of(trial, 1, {}, 1, step);
      double largest = 0;
      for (const float change : alone.change) largest = std::max(largest, std::abs(double{change}));
      EXPECT_GT(largest, 0) << trial.name;
      for (const World& world : worlds) {
        const MixedStep found = step_of(trial, world.ranks, world.weights, world.micro_batches, step);
        const std::string what = fmt::format("{}, step {}, {} ranks{}, {} micro-batches", trial.name, step, world.ranks,
                                             world.weights.empty() ? "" : " (3,1)", world.micro_batches);
        EXPECT_LE(gradient_distance(dense, found.change, alone.change).value, kWorldBound) << what;
        EXPECT_LE(loss_distance({&found.loss, 1}, {&alone.loss, 1}), kWorldBound) << what;
      }
    }
}

// The loss is the weighted mean; twice the weights change nothing, nor do equal weights.
TEST(MixInWorlds, WeightsAreDividedByTheirSum) {
  const auto change = [](std::vector<float> weights) {
    return step_of({"", {.max_grad_norm = 0.1, .class_weights = std::move(weights)}}, 2, {}, 1, kWholeStep);
  };
  const MixedStep plain = change({}), equal = change({3, 3, 3, 3}), some = change({1, 4, 2, 8}),
                  twice = change({2, 8, 4, 16});
  EXPECT_LE(distance(equal.change, plain.change), 1e-6);
  EXPECT_NEAR(equal.loss, plain.loss, 1e-6);
  EXPECT_LE(distance(twice.change, some.change), 1e-6);
  EXPECT_NEAR(twice.loss, some.loss, 1e-6);
  EXPECT_GE(distance(some.change, plain.change), 0.01);
}

}  // namespace
}  // namespace ddp::testing
