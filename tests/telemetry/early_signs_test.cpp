#include "telemetry/early_signs.h"

#include "tests/text.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

namespace ddp {
namespace {

const double kNan = std::nan("");

TEST(EarlySigns, ALossOfGuessingIsOne) {
  EXPECT_EQ(hint_of_loss(2.2, 10, 1000, 0.1, 0), std::nullopt);
  EXPECT_EQ(hint_of_loss(6.7, 1000, 1000, 0.1, 0), std::nullopt);
  EXPECT_EQ(hint_of_loss(kNan, 10, 1000, 0.1, 0), std::nullopt);
  EXPECT_EQ(hint_of_loss(2.3, 1, 1000, 0.1, 0), std::nullopt);
  EXPECT_EQ(hint_of_loss(2.3046, 10, 1000, 0.001, 0),
            "the loss has not fallen below that of guessing, ln(10) = 2.30: it is 2.305 after 1000 steps; try another "
            "--lr (now 0.001)");
  EXPECT_HAS(hint_of_loss(40, 10, 1000, 100, 0).value_or("none"), "a lower --lr (now 100)");
}

// No loss is below the entropy of the labels: of two classes and a smoothing of 0.9, that is 0.688.
TEST(EarlySigns, ALossThatSmoothLabelsKeepHighIsNone) {
  EXPECT_EQ(hint_of_loss(0.69, 2, 1000, 0.1, 0.9), std::nullopt);
  EXPECT_EQ(hint_of_loss(0.6931, 2, 1000, 0.1, 1), std::nullopt);
  EXPECT_EQ(hint_of_loss(2.27, 10, 1000, 0.1, 0.5), std::nullopt);
  EXPECT_NE(hint_of_loss(2.27, 10, 1000, 0.1, 0), std::nullopt);
  EXPECT_NE(hint_of_loss(2.3, 10, 1000, 0.1, 0.5), std::nullopt);
}

// As the runs do: a plateau of 260 steps is none, a warm-up does not count.
TEST(EarlySigns, TheLossIsJudgedOnceAfterTheWarmUp) {
  LossSign sign;
  int judged = 0;
  const auto steps = [&](int64_t count, double loss, double lr, double rise) {
    for (int64_t i = 0; i < count; ++i) judged += sign.add(loss, lr += rise) ? 1 : 0;
  };
  steps(5000, 2.3, 0, 0.001);
  EXPECT_EQ(judged, 0);
  steps(260, 2.3, 6, 0);
  steps(LossSign::kSteps - 261, 0.5, 6, 0);
  EXPECT_EQ(judged, 0);
  steps(1, kNan, 6, 0);
  EXPECT_EQ(judged, 1);
  EXPECT_NEAR(sign.mean(), 0.5, 1e-12);
  steps(5000, 9, 6, -0.0001);
  EXPECT_EQ(judged, 1);
  EXPECT_NEAR(sign.mean(), 0.5, 1e-12);
}

StepResult step_of(int64_t step, double loss, int64_t samples = 64) {
  StepResult result;
  result.step = step;
  result.loss = loss;
  result.lr = 0.1;
  result.samples = samples;
  return result;
}

// As a resnet18 does at a rate of 0.095.
TEST(EarlySigns, ALossThatJumpsIs) {
  const StepResult bad = step_of(109, 4.02, 512);
  EXPECT_EQ(hint_of_jump(bad, 0.41, 10, false),
            "the loss jumped at step 109: 4.02, 9.8 times the mean of the last 50 steps (0.41); try a lower --lr (now "
            "0.1), or --clip-grad-norm 1");
  EXPECT_HAS(hint_of_jump(bad, 0.41, 10, true).value_or("none"), "try a lower --lr (now 0.1)");
  EXPECT_EQ(hint_of_jump(bad, 0.41, 10, true).value_or("").find("clip"), std::string::npos);
  EXPECT_NE(hint_of_jump(step_of(1, 1e30), 2.3, 10, false), std::nullopt);
  EXPECT_EQ(hint_of_jump(step_of(1, 4), 1.34, 10, false), std::nullopt);  // less than three times
  EXPECT_NE(hint_of_jump(step_of(1, 4), 1.33, 10, false), std::nullopt);
  EXPECT_EQ(hint_of_jump(step_of(1, 2.3), 0.001, 10, false), std::nullopt);  // less than guessing
  EXPECT_NE(hint_of_jump(step_of(1, 2.31), 0.001, 10, false), std::nullopt);
  EXPECT_EQ(hint_of_jump(step_of(1, 9.2, 16), 0.001, 10, false), std::nullopt);  // hard samples of a few
  EXPECT_NE(hint_of_jump(step_of(1, 9.3, 16), 0.001, 10, false), std::nullopt);
  StepResult tokens = step_of(1, 9.2, 16);
  tokens.sequence_length = 4;  // 64 labels
  EXPECT_NE(hint_of_jump(tokens, 0.001, 10, false), std::nullopt);
  EXPECT_EQ(hint_of_jump(step_of(1, kNan), 0.4, 10, false), std::nullopt);
  EXPECT_EQ(hint_of_jump(step_of(1, std::numeric_limits<double>::infinity()), 0.4, 10, false), std::nullopt);
  EXPECT_EQ(hint_of_jump(step_of(1, 4), kNan, 10, false), std::nullopt);
  EXPECT_EQ(hint_of_jump(step_of(1, 4), 0.4, 1, false), std::nullopt);
}

TEST(EarlySigns, TheMeanIsOfTheLastFiftyLosses) {
  LastLosses losses;
  for (int i = 0; i < LastLosses::kLast - 1; ++i) losses.add(3);
  for (const double none : {kNan, std::numeric_limits<double>::infinity()}) losses.add(none);
  EXPECT_EQ(losses.mean(), std::nullopt);
  losses.add(3);
  EXPECT_EQ(losses.mean(), 3.0);
  for (int i = 0; i < 25; ++i) losses.add(1);
  EXPECT_EQ(losses.mean(), 2.0);
}

// A share of the samples is hard and has a mean loss of 3, the others nearly none.
TEST(EarlySigns, TheNoiseOfSmallBatchesIsNone) {
  std::mt19937 random(0);
  std::exponential_distribution<double> hard(1 / 3.0);
  ::testing::internal::CaptureStdout();
  for (const int64_t batch : {1, 4, 16, 64})
    for (const double share : {0.1, 0.03, 0.003}) {
      EarlySigns signs({.classes = 10});
      std::bernoulli_distribution is_hard(share);
      for (int64_t step = 1; step <= 5'000; ++step) {
        double sum = 0;
        for (int64_t i = 0; i < batch; ++i) sum += is_hard(random) ? hard(random) : 0.001;
        signs.step(step_of(step, sum / static_cast<double>(batch), batch));
      }
    }
  EXPECT_EQ(::testing::internal::GetCapturedStdout(), "");
}

// The hint names what may be the cause: the rate, another --init, or images of zeros, of which the bias alone learns.
TEST(EarlySigns, ParametersWithoutAGradientAre) {
  NetworkFacts network{.parameters = 10, .first_weight = "0.weight", .first_shift = "0.bias"};
  EXPECT_EQ(hint_of_gradients({}, network, 0.1), std::nullopt);
  EXPECT_EQ(hint_of_gradients({"0.weight", "0.bias"}, network, 0.1),
            "the gradients of 2 of 10 parameters are zero, so they do not learn (0.weight, 0.bias); a lower --lr (now "
            "0.1) keeps ReLUs from dying");
  EXPECT_EQ(hint_of_gradients({"3.weight"}, network, 0),
            "the gradients of 1 of 10 parameters are zero, so they do not learn (3.weight)");
  EXPECT_EQ(
      hint_of_gradients({"0.weight"}, network, 0.1),
      "the gradients of 1 of 10 parameters are zero, so they do not learn (0.weight); the first layer reads zeros "
      "only: look at the images with ddp_train show");
  network.default_init = false;
  EXPECT_HAS(hint_of_gradients({"0.weight", "0.bias"}, network, 0.1).value_or("none"),
             "; --init default gives other weights, and a lower --lr (now 0.1) keeps ReLUs from dying");
}

TEST(EarlySigns, AWaitForDataAboveATenthIs) {
  const StepSpeed good{.ranks = {{1, 9.5, 0}, {0.5, 8, 2}}}, bad{.ranks = {{1, 8.5, 0}, {4, 8, 2}}};
  const DataFacts pictures{.workers = 2, .threads = 1};
  EXPECT_EQ(hint_of_data(good, 1000, pictures), std::nullopt);
  EXPECT_EQ(hint_of_data(bad, 1000, pictures),
            "rank 1 waits for data 29 % of a step; more --workers read images ahead (now 2)");
  EXPECT_EQ(hint_of_data(bad, 1000, {.workers = 2, .threads = 1, .tokens = true}),
            "rank 1 waits for data 29 % of a step; more --workers read tokens ahead (now 2)");
  const auto remedy = [&](int threads) {
    const std::string hint = hint_of_data(bad, 1000, {.workers = 0, .threads = threads}).value_or("; none");
    return hint.substr(hint.find("; ") + 2);
  };
  EXPECT_EQ(remedy(2),
            "a lower --threads (now 2) leaves a core to the loader, a larger --batch-size gives the loader "
            "more time");
  EXPECT_EQ(remedy(1), "a larger --batch-size gives the loader more time");
  EXPECT_EQ(remedy(0), "a larger --device-data-mb keeps the data on the GPU");
  EXPECT_EQ(hint_of_data(bad, 35, pictures), std::nullopt);  // of less than half a second
  EXPECT_NE(hint_of_data(bad, 36, pictures), std::nullopt);
  EXPECT_EQ(hint_of_data({.ranks = {{kNan, 8, 0}}}, 1000, pictures), std::nullopt);
}

TEST(EarlySigns, FewerCoresThanRanksAre) {
  const auto on = [](std::vector<int> cores, const char* host = "a") {
    return RankCores{.host = host, .cores = cores, .usable = static_cast<int>(cores.size())};
  };
  EXPECT_EQ(hint_of_cores({}), std::nullopt);
  EXPECT_EQ(hint_of_cores({on({0})}), std::nullopt);
  EXPECT_EQ(hint_of_cores({on({0}), on({1})}), std::nullopt);
  EXPECT_EQ(hint_of_cores({on({0, 1}), on({0, 1})}), std::nullopt);
  EXPECT_EQ(hint_of_cores({on({0}, "a"), on({0}, "b")}), std::nullopt);
  EXPECT_HAS(hint_of_cores({on({1}), on({0}), on({0})}).value_or("none"), "2 ranks share core 0 of a");
  EXPECT_HAS(hint_of_cores({on({0, 1}), on({0, 1}), on({0, 1})}).value_or("none"), "3 ranks share cores 0, 1 of a");
  RankCores limited = on({0, 1, 2, 3});  // of a container
  limited.usable = 1;
  EXPECT_HAS(hint_of_cores({limited, limited}).value_or("none"), "2 ranks share 1 core of a");
  EXPECT_HAS(hint_of_cores({limited, limited}).value_or("none"), "raise the limit of the container");
  EXPECT_HAS(hint_of_cores({on({0}), on({0})}).value_or("none"), "bind each to cores of its own");
}

TEST(EarlySigns, EachIsPrintedOnce) {
  ::testing::internal::CaptureStdout();
  EarlySigns signs({.classes = 10, .data = {.workers = 2}, .cores = {{"a", {0}, 1}, {"a", {0}, 1}}});
  for (int64_t step = 1; step <= 3000; ++step) signs.step(step_of(step, 2.3));
  signs.gradients({"3.weight"});
  for (int epoch = 1; epoch <= 3; ++epoch) {
    signs.speed(epoch, 1000, {.ranks = {{4, 1, 0}}});
    for (int64_t step = 1; step <= 1000; ++step) signs.step(step_of(3000 + step, step > 990 ? 1000 : 2.3));
  }
  const std::string text = ::testing::internal::GetCapturedStdout();
  EXPECT_EQ(std::ranges::count(text, '\n'), 5) << text;
  for (const char* sign : {"hint: 2 ranks share", "hint: the loss has", "hint: the loss jumped", "hint: the gradients",
                           "hint: rank 0 waits"})
    EXPECT_HAS(text, sign);
}

// What is known to keep the loss high is not blamed on the rate.
TEST(EarlySigns, OneCauseHasOneHint) {
  ::testing::internal::CaptureStdout();
  EarlySigns no_gradients({.classes = 10}), skips({.classes = 10});
  StepResult skipped = step_of(1, 2.3);
  skipped.skipped = "planted";
  for (int64_t step = 1; step <= 2000; ++step) {
    no_gradients.step(step_of(step, 2.3));
    if (step == 10) no_gradients.gradients({"3.weight"});
    skips.step(skipped);
  }
  const std::string text = ::testing::internal::GetCapturedStdout();
  EXPECT_EQ(text.find("the loss"), text.npos) << text;
  EXPECT_HAS(text, "hint: the gradients");
}

TEST(EarlySigns, WhatIsLearntByHeartHasNoGradient) {
  ::testing::internal::CaptureStdout();
  EarlySigns signs({.classes = 10});
  signs.step(step_of(1, 1e-6));
  signs.gradients({"3.weight"});
  EXPECT_EQ(::testing::internal::GetCapturedStdout(), "");
}

}  // namespace
}  // namespace ddp
