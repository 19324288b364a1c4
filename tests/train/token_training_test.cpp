// Training and evaluation on tokens; ranks are threads on the reference ops.
#include "nn/freeze.h"
#include "tests/train/token_network.h"
#include "tests/train/trainer.h"
#include "train/observers/plan_report.h"
#include "train/range_test/range_test.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace ddp::testing {
namespace {

constexpr int64_t kTokenSteps = 8;  // two epochs of three whole batches and a short one

FixtureConfig token_config() {
  return {.batch_size = 4, .lr = 0.05, .replica = {.optimizer = {.momentum = 0.9f}, .seed = 3}};
}

struct TokenRun {
  std::vector<double> losses;
  std::vector<float> weights;
};

TokenRun run_tokens(int ranks, const FixtureConfig& config) {
  const Network network = token_network();
  const TokenWindows data(14);
  TokenRun run;
  run_world(ranks, [&](Communicator& communicator, Device& device, Ops& ops) {
    Fixture fixture(config, network, data, device, ops, communicator);
    const std::vector<double> losses = fixture.losses(0, kTokenSteps);
    fixture.replica.check_replicas();
    if (communicator.rank() == 0) run = {losses, dense_weights(fixture.replica)};
  });
  return run;
}

void expect_same(const TokenRun& actual, const TokenRun& expected, const char* what) {
  EXPECT_LE(loss_distance(actual.losses, expected.losses), 1e-5) << what;
  EXPECT_LE(distance(actual.weights, expected.weights), 1e-5) << what;
}

// Each option changes the training, and in the same way on one and on two ranks.
TEST(TokenTraining, OptionsOfTheUpdateHaveTheirEffect) {
  const TokenRun plain = run_tokens(1, token_config());
  const auto expect_effect = [&](const char* what, const FixtureConfig& config) {
    const TokenRun one = run_tokens(1, config);
    EXPECT_GE(distance(one.weights, plain.weights), 1e-3) << what;
    expect_same(run_tokens(2, config), one, what);
  };
  FixtureConfig config = token_config();
  config.replica.label_smoothing = 0.2f;
  expect_effect("--label-smoothing", config);
  config = token_config();
  config.replica.max_grad_norm = 0.1;
  expect_effect("--clip-grad-norm", config);
}

// The table of the embedding is the weight of the head too.
TEST(TokenTraining, AFrozenTableStaysAsItWas) {
  const Network network = freeze(token_network(), std::vector<std::string>{"wte"});
  const TokenWindows data(14);
  run_world(2, [&](Communicator& communicator, Device& device, Ops& ops) {
    Fixture fixture(token_config(), network, data, device, ops, communicator);
    const std::vector<float> before = dense_weights(fixture.replica);
    fixture.losses(0, kTokenSteps);
    const std::vector<float> after = dense_weights(fixture.replica);
    int64_t at = 0;
    for (const Parameter& p : fixture.replica.parameters) {
      const bool same = std::equal(after.begin() + at, after.begin() + at + p.count, before.begin() + at);
      EXPECT_EQ(same, p.name.starts_with("wte.")) << p.name;
      at += p.count;
    }
  });
}

// Loss and accuracy by the formula, over all tokens of all samples.
TEST(TokenEvaluation, IsOverAllTokensAtEveryWorldSize) {
  const TokenWindows data(14);
  for (const int ranks : {1, 2, 3, 5})
    run_world(ranks, [&](Communicator& communicator, Device& device, Ops& ops) {
      Fixture fixture(token_config(), token_network(), data, device, ops, communicator);
      fixture.losses(0, kTokenSteps);
      Replica& replica = fixture.replica;
      const DistributedSampler sampler(data.size(), 4, Order::sequential, 0, communicator.rank(),
                                       std::vector<double>(ranks, 1.0));
      DeviceDataset on_device(device, data, std::max<int64_t>(1, sampler.largest_shard()), {});
      Evaluator evaluator(replica, on_device, sampler);
      const Evaluation found = evaluate_all(evaluator);

      double loss = 0;
      int64_t correct = 0;
      std::vector<uint8_t> bytes(static_cast<size_t>(data.sample_bytes()));
      for (int64_t sample = 0; sample < data.size(); ++sample) {
        data.read({sample}, bytes);
        const Tensor logits = replica.model.logits(
            {.samples = bytes.data(), .size = 1, .plan = {}, .sequence_length = kWindow}, replica.running_stats());
        for (int64_t t = 0; t < kWindow; ++t) {
          const auto* const z = static_cast<const float*>(logits.data) + t * kTokenVocabulary;
          const int32_t label = data.token(sample, t + 1);
          double sum = 0;
          for (int64_t k = 0; k < kTokenVocabulary; ++k) sum += std::exp(static_cast<double>(z[k]));
          loss += std::log(sum) - z[label];
          correct += std::max_element(z, z + kTokenVocabulary) - z == label ? 1 : 0;
        }
      }
      EXPECT_EQ(found.samples, 14);
      EXPECT_EQ(found.labels(), 14 * kWindow);
      EXPECT_EQ(found.correct, correct);
      EXPECT_EQ(found.accuracy(), static_cast<double>(correct) / (14 * kWindow));
      EXPECT_GT(correct, 0);
      EXPECT_NEAR(found.loss, loss / (14 * kWindow), 1e-6);
      EXPECT_NEAR(found.perplexity(), std::exp(loss / (14 * kWindow)), 1e-5);
    });
}

TEST(TokenPlan, IsMeasuredOnWindows) {
  const TokenWindows data(14);
  run_world(2, [&](Communicator& communicator, Device& device, Ops& ops) {
    Fixture fixture(token_config(), token_network(), data, device, ops, communicator);
    EXPECT_NE(plan_report(fixture.replica, data, fixture.sampler()).find("predicted step"), std::string::npos);
  });
}

TEST(TokenRangeTest, TrainsThroughTheRates) {
  const TokenWindows data(14);
  const auto tables = make_local_heartbeat_tables(2);
  run_world(2, [&](Communicator& communicator, Device& device, Ops& ops) {
    Fixture fixture(token_config(), token_network(), data, device, ops, communicator);
    PhaseTracker phases(*tables[communicator.rank()]);
    const RangeTestConfig config{
        .range = {.steps = 20, .from = 1e-4, .to = 1e-2}, .step = {.micro_batches = 1}, .data = {}};
    const RangeTest test = test_lr_range(config, fixture.replica, data, fixture.sampler(), phases);
    ASSERT_EQ(test.curve.points().size(), 20U) << test.end;
    Fixture same(token_config(), token_network(), data, device, ops, communicator);
    EXPECT_EQ(test.curve.points().front().loss, same.losses(0, 1)[0]);
  });
}

// The second epoch makes the loss worse, and the accuracy too or not.
class TokenTrainer : public Training {
 protected:
  TokenTrainer() {
    network = token_network(false);
    data.train = std::make_unique<TokenWindows>(kSamples);
    data.test = std::make_unique<TokenWindows>(10);
    replica_config.optimizer = {};
    config = steps(5 * kStepsPerEpoch);
    config.eval_every = 1;
    config.schedule.lr = 1e-7;
    config.save_every.steps = 100;
  }

  // Sets the scale of the last norm in each epoch: at 0 all logits are 0, and the loss is that of guessing.
  static void scale_logits(TrainConfig& mine, Replica& replica) {
    const auto norm = std::ranges::max_element(replica.parameters, {}, [](const Parameter& p) {
      return p.role == Parameter::Role::norm_scale ? p.layer : -1;
    });
    float* const scale = replica.weights() + norm->offset;
    mine.batch_source = [&replica, scale, count = norm->count, step = mine.start.step](NextBatch next) -> NextBatch {
      return [&replica, scale, count, next, step]() mutable -> const DeviceBatch& {
        constexpr float kScales[] = {4, 0, 8, 12, 16};
        std::fill_n(scale, count, kScales[step++ / kStepsPerEpoch]);
        replica.model.bind();
        return next();
      };
    };
  }

  TrainConfig config;
};

// Random logits are the worse, the larger they are: zeros have the lowest loss, whatever the accuracy is.
TEST_F(TokenTrainer, TheLossIsJudged) {
  config.keep_best = true;
  config.early_stop = 2;
  config.schedule.kind = ScheduleDesc::Kind::plateau;
  config.schedule.gamma = 0.5;
  config.schedule.plateau = {.patience = 0};
  run(config, scale_logits);
  EXPECT_TRUE(events.line.ends_with("eval:4 early_stop:4@2")) << events.line;
  EXPECT_EQ(std::filesystem::read_symlink(folder / "best"), "step-00000010");
  for (const auto& report : reports) {
    EXPECT_FALSE(report->classes);
    EXPECT_EQ(report->sequence_length, kWindow);
    EXPECT_EQ(report->state.best_epoch, 2);
    EXPECT_EQ(report->state.best_accuracy, -1);
    ASSERT_TRUE(report->state.best_loss && report->early_stop && report->early_stop->best_loss);
    EXPECT_NEAR(*report->state.best_loss, std::log(kTokenVocabulary), 1e-5);
    EXPECT_EQ(report->early_stop->best_loss, report->state.best_loss);
    EXPECT_EQ(report->state.plateau->factor, 0.25);
    EXPECT_EQ(report->state.accuracy, report->evaluation->accuracy());
  }
  EXPECT_EQ(events.steps[0].tokens(), kBatch * kWindow);
  EXPECT_EQ(events.steps[4].tokens(), 2 * kWindow);  // of the short batch

  const RunState saved = read_run_state(folder / "best");
  EXPECT_EQ(saved.best_loss, reports[0]->state.best_loss);
  run(config, scale_logits, folder / "best");  // goes on with what it has judged
  EXPECT_TRUE(events.line.ends_with("eval:4 early_stop:4@2")) << events.line;
  EXPECT_EQ(reports[0]->state.best_loss, saved.best_loss);
}

// The average of the weights is judged by its loss.
TEST_F(TokenTrainer, TheAverageIsJudgedByItsLoss) {
  config = steps(2 * kStepsPerEpoch);
  config.eval_every = 1;
  replica_config.averages = true;
  config.average = {.every = 1, .decay = 0.75};
  run(config);
  const Evaluation& evaluation = *reports[0]->evaluation;
  ASSERT_TRUE(evaluation.average);
  EXPECT_NE(evaluation.average->loss, evaluation.loss);
  EXPECT_EQ(reports[0]->state.best_loss, evaluation.average->loss);
  EXPECT_LE(distance(average_weights, weights), 0.1);
  EXPECT_NE(average_weights, weights);
}

}  // namespace
}  // namespace ddp::testing
