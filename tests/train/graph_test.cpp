// Layers that join and scale values, and layers of dense activations: their results do not depend on the number of
// ranks, and a resumed run is the same run.
#include "tests/train/dense_network.h"
#include "tests/train/joined_network.h"
#include "tests/train/trainer.h"

#include <gtest/gtest.h>

#include <vector>

namespace ddp::testing {
namespace {

// Steps of eight of 26 samples, and of eight of three: some shards are empty.
void expect_equal_worlds(const Network& network) {
  const std::vector<Parameter> parameters = parameters_of(network);
  const std::vector<BatchNormState> norms = batch_norm_states_of(network);
  for (const int64_t samples : {26, 3}) {
    const MemoryDataset data = small_data(samples);
    FixtureConfig config{.batch_size = 8, .lr = 0.05, .seed = 1, .replica = {.sync_bn = true, .seed = 5}};
    const Result one = train_world(1, config, network, data, 5);
    EXPECT_NE(one.losses.front(), one.losses.back());
    for (const auto& [ranks, weights, micro_batches] :
         {std::tuple<int, std::vector<double>, int>{2, {}, 1}, {3, {}, 1}, {5, {}, 1}, {2, {3, 1}, 1}, {2, {}, 3}}) {
      if (micro_batches > 1 && !norms.empty()) continue;  // a batch norm normalizes each micro-batch by itself
      config.rank_weights = weights;
      config.step.micro_batches = micro_batches;
      const Result many = train_world(ranks, config, network, data, 5);
      const std::string what = fmt::format("{} samples, {} ranks{}, {} micro-batches", samples, ranks,
                                           weights.empty() ? "" : " (3,1)", micro_batches);
      EXPECT_LE(loss_distance(many.losses, one.losses), 1e-5) << what;
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

}  // namespace
}  // namespace ddp::testing
