// The average of the weights: when it is updated, by what, and that a skipped step leaves it alone. The trainer's steps
// are on two ranks, with partitioned optimizer state.
#include "train/step/weight_average.h"

#include "tests/train/trainer.h"

#include <cmath>

namespace ddp::testing {
namespace {

TEST(AverageRate, FollowsTheStepAndCopiesInTheWarmUp) {
  const auto rates = [](const AverageConfig& config, int64_t steps) {
    std::vector<double> found;
    for (int64_t step = 1; step <= steps; ++step) found.push_back(average_rate(config, step, 4));
    return found;
  };
  EXPECT_EQ(rates({.every = 3, .decay = 0.75}, 7), (std::vector<double>{1, 0, 0, 0.25, 0, 0, 0.25}));
  EXPECT_EQ(rates({.every = 1, .decay = 0.75}, 3), (std::vector<double>{1, 0.25, 0.25}));
  // Torchvision counts the epochs of the warm-up from 0. Steps 5 to 8 are of epoch 1.
  EXPECT_EQ(rates({.every = 3, .decay = 0.75, .warm_up_epochs = 1.5}, 13),
            (std::vector<double>{1, 0, 0, 1, 0, 0, 1, 0, 0, 1, 0, 0, 0.25}));
}

class Average : public Training {
 protected:
  struct Values {
    std::vector<float> weights, stats;
  };

  Average() {
    network = norm_network();
    replica_config.averages = replica_config.zero = true;
    data.test = std::make_unique<MemoryDataset>(small_data(40));
    config = steps(11);
    config.average = {.every = 3, .decay = 0.75};
    config.step.skip_limit = 1;
    config.save_every.steps = 7;
    config.eval_every = 1;
  }

  // Step `bad` has a NaN weight. after[k] gets the values after step k.
  Adapt watched(int64_t bad, std::vector<Values>& after) {
    after.assign(13, {});
    return [&after, bad](TrainConfig& mine, Replica& replica) {
      mine.batch_source = [&after, bad, &replica, step = mine.start.step](NextBatch next) -> NextBatch {
        return [&after, bad, &replica, next, step, kept = 0.0f]() mutable -> const DeviceBatch& {
          if (step == bad) replica.weights()[0] = kept;
          if (replica.communicator.rank() == 0)
            after[step] = {replica.download_weights(), replica.download_stats(replica.running_stats())};
          if (++step == bad) kept = std::exchange(replica.weights()[0], NAN);
          replica.model.bind();
          return next();
        };
      };
    };
  }

  TrainConfig config;
};

// Updates follow the steps 1, 4, 7 and 10.
TEST_F(Average, MovesToTheWeightsAndStatisticsUnlessTheStepIsSkipped) {
  for (const int64_t bad : {-1, 4}) {
    SCOPED_TRACE(bad);
    std::vector<Values> after;
    run(config, watched(bad, after));
    EXPECT_EQ(reports[0]->state.skipped, bad > 0);
    const auto expect_average = [&](const std::vector<float>& actual, auto part) {
      for (size_t i = 0; i < actual.size(); ++i) {
        double expected = part(after[1])[i];
        for (const int64_t step : {4, 7, 10})
          if (step != bad) expected += 0.25 * (part(after[step])[i] - expected);
        ASSERT_NEAR(actual[i], expected, 1e-6 * std::max(1.0, std::abs(expected))) << i;
      }
    };
    expect_average(average_weights, [](const Values& values) { return values.weights; });
    expect_average(average_stats, [](const Values& values) { return values.stats; });
    EXPECT_NE(average_weights, weights);
    EXPECT_NE(average_stats, running_stats);
  }
}

TEST_F(Average, IsEvaluatedAndResumesToTheSameBytes) {
  run(config);
  const std::vector<float> end = average_weights, end_stats = average_stats;
  const Evaluation evaluation = *reports[0]->evaluation;
  ASSERT_TRUE(evaluation.average);
  EXPECT_EQ(reports[1]->evaluation->average->loss, evaluation.average->loss);
  EXPECT_NE(evaluation.average->loss, evaluation.loss);
  EXPECT_EQ(reports[0]->classes->correct(), evaluation.correct);  // of the weights

  // A replica with the average as its weights gives the same figures. With partitioned state it has other gaps.
  run_world(1, [&](Communicator& communicator, Device& device, Ops& ops) {
    const DistributedSampler sampler(data.test->size(), 5, Order::sequential, 0, 0, {1.0});
    const std::vector<int64_t> sizes = sampler.local_batch_sizes();
    Replica replica(network, {.batch_sizes = sizes}, device, ops, communicator);
    std::vector<float> flat(replica.plan.gradients);
    const auto theirs = parameters_of(network, partition_alignment(kRanks));
    for (size_t i = 0; i < theirs.size(); ++i)
      std::copy_n(end.begin() + theirs[i].offset, theirs[i].count, flat.begin() + replica.parameters[i].offset);
    replica.load(flat);
    replica.load_running_stats(end_stats);
    DeviceDataset on_device(device, *data.test, sampler.largest_shard(), {});
    Evaluator evaluator(replica, on_device, sampler);
    const Evaluation expected = evaluate_all(evaluator);
    EXPECT_EQ(expected.accuracy(), evaluation.average->accuracy);
    EXPECT_NEAR(expected.loss, evaluation.average->loss, 1e-6 * expected.loss);
  });

  const std::vector<float> final_weights = weights;
  run(config, {}, folder / "step-00000007");
  EXPECT_EQ(weights, final_weights);
  EXPECT_EQ(average_weights, end);
  EXPECT_EQ(average_stats, end_stats);
}

// The average takes no part in the training.
TEST_F(Average, ChangesNoWeight) {
  run(config);
  const std::vector<float> with_average = weights;
  replica_config.averages = false;
  run(config);
  EXPECT_EQ(weights, with_average);
}

}  // namespace
}  // namespace ddp::testing
