// Training with frozen parameters; ranks are threads on the reference ops.
#include "tests/train/flipped_bit.h"
#include "tests/train/frozen_networks.h"
#include "tests/train/snapshot.h"
#include "tests/train/trainer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <string>
#include <vector>

namespace ddp::testing {
namespace {

constexpr OptimizerDesc kFrozenMomentum{.momentum = 0.9f, .weight_decay = 0.1f};

// What one rank holds before and after steps.
struct Before {
  explicit Before(const Replica& r) : weights(dense_weights(r)), stats(r.download_stats(r.running_stats())) {}
  std::vector<float> weights, stats;
};

// The values of frozen tensors are those of `before`, bit by bit; those of trained tensors are not.
void expect_frozen(const Replica& r, const Before& before) {
  const Before after(r);
  int64_t at = 0;
  for (const Parameter& p : r.parameters) {
    const auto same =
        std::equal(after.weights.begin() + at, after.weights.begin() + at + p.count, before.weights.begin() + at);
    EXPECT_EQ(same, !p.trained) << p.name;
    at += p.count;
  }
  for (const BatchNormState& n : r.batch_norms) {
    const auto first = n.span.offset, end = first + 2 * n.span.channels;
    EXPECT_EQ(std::equal(after.stats.begin() + first, after.stats.begin() + end, before.stats.begin() + first),
              !n.trained)
        << n.layer_name;
  }
}

class Frozen : public ::testing::TestWithParam<FrozenPart> {
 protected:
  const Network network = frozen_network(GetParam());
};
INSTANTIATE_TEST_SUITE_P(, Frozen, ::testing::ValuesIn(kFrozenParts),
                         [](const auto& tested) { return std::string(tested.param.name); });

// Shards are uneven and, with three samples, empty.
TEST_P(Frozen, ResultsAreEqualAtEveryWorldSize) {
  for (const int64_t samples : {50, 3})
    for (const int micro_batches : {1, 3}) {
      const MemoryDataset data = small_data(samples);
      FixtureConfig config{.batch_size = 16,
                           .lr = 0.02,
                           .replica = {.optimizer = kFrozenMomentum, .max_grad_norm = 2, .sync_bn = true, .seed = 5},
                           .step = {.micro_batches = micro_batches}};
      std::vector<double> losses;
      std::vector<float> weights, stats;
      const auto train_in = [&](int world) {
        run_world(world, [&](Communicator& c, Device& device, Ops& ops) {
          Fixture fixture(config, network, data, device, ops, c);
          const Before before(fixture.replica);
          const auto found = fixture.losses(0, 5);
          fixture.replica.check_replicas();
          expect_frozen(fixture.replica, before);
          if (c.rank() != 0) return;
          const Before after(fixture.replica);
          if (losses.empty()) {
            losses = found;
            weights = after.weights;
            stats = after.stats;
          }
          EXPECT_LE(loss_distance(found, losses), 1e-5);
          EXPECT_LE(distance(after.weights, weights), 1e-5);
          EXPECT_LE(distance(after.stats, stats), 1e-5);
        });
      };
      for (const int world : {1, 2, 3}) train_in(world);
      config.replica.zero = true;
      train_in(3);
      config.rank_weights = {3, 1};
      train_in(2);
    }
}

// The frozen parameters get no work, and the others the bits that they would get without them. Where norms normalise by
// their running statistics, the gradient of each trained tensor is the slope of the loss along it.
TEST_P(Frozen, GradientsOfTheOthersAreRight) {
  const MemoryDataset data = small_data(16);
  const FixtureConfig config{.batch_size = 16, .lr = 0, .replica = {.seed = 5}};
  run_world(1, [&](Communicator& c, Device& device, Ops& ops) {
    Fixture fixture(config, network, data, device, ops, c), whole(config, norm_network(), data, device, ops, c);
    Replica& r = fixture.replica;
    const bool same_norms = r.bn_batch_sums_count() == state_count(r.batch_norms);
    fixture.losses(0, 1);
    whole.losses(0, 1);
    const std::vector<float> gradients = r.download_gradients(), start = r.download_weights();
    const std::vector<float> of_whole = whole.replica.download_gradients();
    EXPECT_EQ(std::ssize(gradients), flat_count(trained_of(r.parameters)));
    if (GetParam().prefixes[0] == "0") {
      EXPECT_LT(2 * r.model.arena().bytes(), whole.replica.model.arena().bytes());
    }
    for (const Parameter& p : trained_of(r.parameters)) {
      const auto gradient = std::span(gradients).subspan(p.offset, p.count);
      if (same_norms) {
        const auto same = std::ranges::find(whole.replica.parameters, p.name, &Parameter::name);
        EXPECT_TRUE(std::ranges::equal(gradient, std::span(of_whole).subspan(same->offset, p.count))) << p.name;
        continue;
      }
      if (p.bias_gradient == LayerSpec::BiasGradient::nobody) continue;
      const double norm = deviation(gradient, gradient).norm, step = 2e-3;
      ASSERT_GT(norm, 1e-4) << p.name;
      const auto loss_at = [&](double distance) {
        std::vector<float> moved = start;
        for (int64_t i = 0; i < p.count; ++i) moved[p.offset + i] += static_cast<float>(distance / norm * gradient[i]);
        r.load(moved);
        return fixture.losses(0, 1)[0];
      };
      EXPECT_NEAR((loss_at(step) - loss_at(-step)) / (2 * step), norm, 0.03 * norm) << p.name;
    }
  });
}

TEST(FrozenParts, TakePartInTheReplicaCheck) {
  run_world(2, [](Communicator& c, Device& device, Ops& ops) {
    expect_a_flipped_bit_is_named_in(frozen_network(kFrozenParts[0]), c, device, ops);
  });
}

// Neither sums in the trailer nor a communicator for them.
TEST(FrozenParts, OfAllNormsCommunicateNothing) {
  const MemoryDataset data = small_data(16);
  run_world(2, [&](Communicator& c, Device& device, Ops& ops) {
    const Fixture fixture({.batch_size = 16, .replica = {.sync_bn = true}}, frozen_network(kFrozenParts[1]), data,
                          device, ops, c);
    EXPECT_EQ(fixture.replica.plan.trailer(), TicketLayout{2}.elements());
    EXPECT_EQ(fixture.replica.bn_communicator, nullptr);
    EXPECT_FALSE(fixture.replica.sync_bn);
  });
}

// Step 3 is inside an epoch. The frozen norms keep the counts that they begin with, and an evaluation that recomputes
// statistics leaves theirs as they are.
class FrozenRun : public Training, public ::testing::WithParamInterface<bool> {};
INSTANTIATE_TEST_SUITE_P(, FrozenRun, ::testing::Bool(),
                         [](const auto& tested) { return std::string(tested.param ? "partitioned" : "whole"); });

TEST_P(FrozenRun, ResumesToTheSameBytes) {
  network = frozen_network(kFrozenParts[2]);
  recompute_bn = true;
  replica_config.zero = GetParam();
  TrainConfig config = steps(7);
  config.eval_every = 1;
  config.save_every.steps = 1;
  const std::vector<int64_t> updates{41};
  std::vector<float> initial, evaluated;
  run(config, [&](TrainConfig&, Replica& replica) {
    replica.frozen_updates = updates;
    if (replica.communicator.rank() == 0) initial = replica.download_stats(replica.running_stats());
  });
  const std::vector<float> end = weights, stats = running_stats;
  for (const int64_t from : {3, 5}) {
    run(config, {}, folder / fmt::format("step-{:08}", from));
    EXPECT_EQ(weights, end) << from;
    EXPECT_EQ(running_stats, stats) << from;
  }
  const auto parameters = parameters_of(network);
  const auto norms = batch_norm_states_of(network);
  for (const int64_t step : {5, 7}) {
    const Snapshot saved = read_checkpoint(folder / fmt::format("step-{:08}", step), {parameters, norms},
                                           std::vector<std::string>{"momentum_buffer"});
    EXPECT_EQ(saved.run.bn_stats_samples, kSamples);
    EXPECT_EQ(saved.model.frozen_updates, updates);
    for (const BatchNormState& n : norms) {
      const auto of = [&](std::span<const float> values) {
        return copy_of(values.subspan(n.span.offset, 2 * n.span.channels));
      };
      EXPECT_EQ(of(saved.running_stats) == of(initial), !n.trained) << n.layer_name;
      EXPECT_EQ(of(saved.model.statistics) == of(initial), !n.trained) << n.layer_name;
    }
    EXPECT_EQ(std::ssize(saved.optimizer[0].values), flat_count(trained_of(parameters)));
  }
}

}  // namespace
}  // namespace ddp::testing
