#include "telemetry/console.h"

#include "tests/test_clock.h"
#include "tests/text.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <string>

namespace ddp {
namespace {

TEST(Console, DrawsTheBarTenTimesASecond) {
  testing::TestClock clock;
  int drawn = 0;
  Console console({.bar = true, .steps_per_epoch = 1000, .total_steps = 1000, .printed = [&] { ++drawn; }});
  ::testing::internal::CaptureStdout();
  for (int64_t step = 1; step <= 100; ++step) {
    StepResult result;
    result.step = step;
    console.step(result);
    EXPECT_EQ(drawn, (step - 1) / 10 + 1);
    clock.pass(std::chrono::milliseconds(10));
  }
  console.close(false);
  ::testing::internal::GetCapturedStdout();
}

// The results of two steps may come at the same moment.
TEST(Console, TheRateIsThatOfTheStepsOwnTimes) {
  Console console({.print_freq = 2, .steps_per_epoch = 5});
  StepResult result;
  result.epoch = 1;
  result.samples = 256;
  result.times = {.data = 1, .compute = 6, .exposed_comm = 1};
  ::testing::internal::CaptureStdout();
  for (result.step = 1; result.step <= 4; ++result.step) {
    console.step(result);
    if (result.step == 3) console.evaluation(1, 3, {.samples = 1, .expected_samples = 1}, 60);
    result.times.compute += 2;
  }
  const std::string lines = ::testing::internal::GetCapturedStdout();
  EXPECT_HAS(lines, "step 2/5 loss 0.0000 28444 samples/s, ms: data 1.00 compute 7.00 exposed comm 1.00\n");
  EXPECT_HAS(lines, "step 4/5 loss 0.0000 19692 samples/s, ms: data 1.00 compute 11.00 exposed comm 1.00\n");
}

TEST(Console, EvaluationHasTheFiguresOfTheAverage) {
  Console console({.epochs = 3});
  Evaluation evaluation{.correct = 3, .samples = 4, .expected_samples = 4, .loss = 0.5};
  ::testing::internal::CaptureStdout();
  console.evaluation(2, 40, evaluation, 1);
  evaluation.average = {.accuracy = 0.875, .loss = 0.25};
  console.evaluation(2, 40, evaluation, 1);
  console.early_stop(2, 40, {.best = 0.9, .best_epoch = 1, .bad = 1});
  EXPECT_EQ(::testing::internal::GetCapturedStdout(),
            "epoch 2/3 test acc 0.7500 (4/4 samples evaluated in 1.00 s), loss 0.5000\n"
            "epoch 2/3 test acc 0.7500, EMA 0.8750 (4/4 samples evaluated in 1.00 s), loss 0.5000, EMA 0.2500\n"
            "epoch 2/3 ends the run early: 1 evaluation in a row without a better accuracy than 0.9000 of epoch 1\n");
}

TEST(Console, TokensHaveASpeedALossAndAPerplexity) {
  Console console({.print_freq = 2, .epochs = 3, .steps_per_epoch = 2});
  ::testing::internal::CaptureStdout();
  for (const int64_t step : {1, 2})
    console.step({.step = step,
                  .epoch = 1,
                  .loss = 3,
                  .samples = 4,
                  .sequence_length = 256,
                  .skipped = {},
                  .times = {.data = 0, .compute = 125, .exposed_comm = 0}});
  Evaluation evaluation{
      .correct = 300, .samples = 4, .expected_samples = 4, .sequence_length = 250, .loss = std::log(30.5)};
  console.evaluation(1, 2, evaluation, 1);
  evaluation.average = {.accuracy = 0.5, .loss = 2};
  console.evaluation(1, 2, evaluation, 1);
  console.early_stop(2, 4, {.best_epoch = 1, .bad = 2, .best_loss = 1.5});
  EXPECT_EQ(
      ::testing::internal::GetCapturedStdout(),
      "epoch 1/3 step 2/2 loss 3.0000 32.0 samples/s 8192 tokens/s, ms: data 0.00 compute 125.00 exposed comm "
      "0.00\n"
      "epoch 1/3 test loss 3.4177, perplexity 30.5 (4/4 samples evaluated in 1.00 s), acc 0.3000\n"
      "epoch 1/3 test loss 3.4177, EMA 2.0000, perplexity 30.5 (4/4 samples evaluated in 1.00 s), acc 0.3000, EMA "
      "0.5000\n"
      "epoch 2/3 ends the run early: 2 evaluations in a row without a lower loss than 1.5000 of epoch 1\n");
}

TEST(Console, SpeedIsALine) {
  Console console({.epochs = 3});
  ::testing::internal::CaptureStdout();
  console.speed(2, 40, {.ranks = {{1, 8, 3}, {0.5, 10.5, 1}}, .communication = 4, .batch = 64, .noise_scale = 1000.0});
  EXPECT_EQ(
      ::testing::internal::GetCapturedStdout(),
      "epoch 2/3 12.00 ms a step: data 0.50 compute 10.50 exposed comm 1.00 (75% of 4.00 hidden); rank 1 slowest, "
      "10.0% above the mean; noise scale 1000 samples\n");
}

}  // namespace
}  // namespace ddp
