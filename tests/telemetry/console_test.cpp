#include "telemetry/console.h"

#include "tests/test_clock.h"

#include <gtest/gtest.h>

#include <chrono>

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
