// Layers that join and scale values, and layers of dense activations: their results do not depend on the number of
// ranks, and a resumed run is the same run.
#include "nn/freeze.h"
#include "ops/cpu/ops.h"
#include "tests/train/dense_network.h"
#include "tests/train/joined_network.h"
#include "tests/train/token_network.h"
#include "tests/train/trainer.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace ddp::testing {
namespace {

// Steps of eight of 26 samples, and of eight of three: some shards are empty.
void expect_equal_worlds(const Network& network, ReplicaConfig replica = {},
                         const MakeOps& make_ops = make_reference_ops) {
  replica.sync_bn = true;
  replica.seed = 5;
  const std::vector<Parameter> parameters = parameters_of(network);
  const std::vector<BatchNormState> norms = batch_norm_states_of(network);
  for (const int64_t samples : {26, 3}) {
    std::unique_ptr<Dataset> data;
    if (network.reads_tokens())
      data = std::make_unique<TokenWindows>(samples);
    else
      data = std::make_unique<MemoryDataset>(small_data(samples));
    FixtureConfig config{.batch_size = 8, .lr = 0.05, .seed = 1, .replica = replica};
    const Result one = train_world(1, config, network, *data, 5, make_ops);
    EXPECT_NE(one.losses.front(), one.losses.back());
    for (const auto& [ranks, weights, micro_batches] :
         {std::tuple<int, std::vector<double>, int>{2, {}, 1}, {3, {}, 1}, {5, {}, 1}, {2, {3, 1}, 1}, {2, {}, 3}}) {
      if (micro_batches > 1 && !norms.empty()) continue;  // a batch norm normalizes each micro-batch by itself
      config.rank_weights = weights;
      config.step.micro_batches = micro_batches;
      const Result many = train_world(ranks, config, network, *data, 5, make_ops);
      const std::string what = fmt::format("{} samples, {} ranks{}, {} micro-batches", samples, ranks,
                                           weights.empty() ? "" : " (3,1)", micro_batches);
      EXPECT_LE(loss_distance(many.losses, one.losses), 1e-5) << what;
      if (replica.zero) continue;  // the number of ranks changes the places of the gradients
      const Distance distance = gradient_distance(parameters, many.gradients, one.gradients);
      EXPECT_LE(distance.value, 1e-4) << what << ", " << distance.tensor;
      EXPECT_LE(stats_distance(norms, many.state, one.state).value, 1e-5) << what;
    }
  }
}

TEST(GraphInWorlds, ResultsAreEqualAtEveryWorldSize) { expect_equal_worlds(joined_network()); }

TEST(GraphInWorlds, DenseResultsAreEqualAtEveryWorldSize) {
  for (const bool batch_norms : {true, false}) {
    SCOPED_TRACE(batch_norms);
    expect_equal_worlds(dense_network(batch_norms));
  }
}

// oneDNN's threads are not for the sanitizer of threads.
std::vector<MakeOps> ops_of_runs() {
#ifdef __SANITIZE_THREAD__
  return {make_reference_ops};
#else
  return {make_reference_ops, [](Device& device) { return make_cpu_ops(device, {}); }};
#endif
}

// Dropout is keyed by sample. Without the table the head is frozen too. ZeRO changes no sum but the order of its terms.
TEST(GraphInWorlds, TokenResultsAreEqualAtEveryWorldSize) {
  for (const MakeOps& make_ops : ops_of_runs()) expect_equal_worlds(token_network(), {}, make_ops);
  expect_equal_worlds(freeze(token_network(), std::vector<std::string>{"wte"}));
  expect_equal_worlds(token_network(), {.optimizer = {.kind = OptimizerDesc::Kind::adam}, .zero = true});
}

// Sums in bf16 have three digits.
TEST(GraphInWorlds, TokenGradientsTravelInBf16) {
  const TokenWindows data(26);
  FixtureConfig config{.batch_size = 8, .lr = 0.05, .seed = 1, .replica = {.seed = 5}, .step = {.micro_batches = 3}};
  const Result plain = train_world(3, config, token_network(), data, 5);
  config.replica.grad_dtype = GradDType::bf16;
  const Result halves = train_world(3, config, token_network(), data, 5);
  EXPECT_NE(halves.gradients, plain.gradients);
  EXPECT_LE(loss_distance(halves.losses, plain.losses), 1e-2);
  EXPECT_LE(gradient_distance(parameters_of(token_network()), halves.gradients, plain.gradients).value, 2e-2);
}

class GraphRun : public Training {
 protected:
  // Step 3 is inside an epoch.
  void expect_resumed_run_is_the_same(const Network& trained) {
    network = trained;
    replica_config.seed = 5;
    replica_config.sync_bn = true;
    TrainConfig config = steps(7);
    config.save_every.steps = 1;
    run(config);
    const std::vector<float> end = weights, stats = running_stats;
    for (const int64_t from : {3, 5}) {
      run(config, {}, folder / fmt::format("step-{:08}", from));
      EXPECT_EQ(weights, end) << from;
      EXPECT_EQ(running_stats, stats) << from;
    }
  }
};

TEST_F(GraphRun, ResumesToTheSameBytes) { expect_resumed_run_is_the_same(joined_network()); }

TEST_F(GraphRun, ResumesADenseNetworkToTheSameBytes) { expect_resumed_run_is_the_same(dense_network()); }

TEST_F(GraphRun, ResumesANetworkOfTokensToTheSameBytes) {
  data = {.train = std::make_unique<TokenWindows>(kSamples), .test = std::make_unique<TokenWindows>(10)};
  for (const MakeOps& one : ops_of_runs()) {
    make_ops = one;
    expect_resumed_run_is_the_same(token_network());
    std::filesystem::remove_all(folder);
  }
}

}  // namespace
}  // namespace ddp::testing
