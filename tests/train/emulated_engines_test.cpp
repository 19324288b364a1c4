// cuDNN's engines are measured in graphs, and the fastest is used. All times of the emulator are equal.
#include "core/error.h"
#include "device/cuda/device.h"
#include "ops/cuda/cudnn_plan.h"
#include "ops/cuda/ops.h"
#include "tests/test_clock.h"

#include <emulator/emulator.h>
#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <string>
#include <vector>

namespace ddp::testing {
namespace {

// The clock stands still, so there is time to measure all engines.
class EmulatedEngines : public ::testing::Test {
 protected:
  ~EmulatedEngines() override {
    cudnn::offer_engines({0});
    emulator::set_cache(50 << 20);
  }

  // Makes two equal convolutions and one with more channels.
  void plan(std::vector<int64_t> engines, bool deterministic = false, bool decided = false) {
    cudnn::offer_engines(std::move(engines));
    const auto device = make_cuda_device({});
    const auto ops = make_cuda_ops(*device, {.precision = Precision::bf16,
                                             .deterministic = deterministic,
                                             .measuring = {.seconds = seconds,
                                                           .agree = [&](auto words) { agreed.push_back(words[0]); },
                                                           .decided = [&] { return decided; },
                                                           .measured =
                                                               [&](const auto& pass) {
                                                                 measured.push_back(pass);
                                                                 clock.pass(std::chrono::seconds(1));
                                                               },
                                                           .known = known}});
    const int64_t sizes[] = {2, 3};
    for (const int64_t channels : {4, 4, 8})
      ops->conv2d({.input = {5, 5, 2}, .input_format = {}, .out_channels = channels, .window = {3, 1}}, sizes);
    device->synchronize();
  }

  TestClock clock;
  double seconds = 60;
  std::map<std::string, std::vector<int64_t>> known;
  std::vector<int64_t> agreed;
  std::vector<MeasuredPass> measured;
};

TEST_F(EmulatedEngines, AreMeasuredOnceForEqualConvolutions) {
  for (const int cache : {1, 50 << 20}) {  // with and without eviction
    emulator::set_cache(cache);
    agreed.clear();
    measured.clear();
    plan({-7, 5, 6, -8});
    EXPECT_EQ(agreed, std::vector<int64_t>(9, 5));
    ASSERT_EQ(measured.size(), 6u);
    EXPECT_EQ(measured[0].name, "forward pass of 3 images of 5x5x2 to 4, 3x3, stride 1, padding 0,0,0,0, bias");
    EXPECT_EQ(measured[5].name, "input gradient of 3 images of 5x5x2 to 8, 3x3, stride 1, padding 0,0,0,0, bias");
    for (const MeasuredPass& pass : measured) {
      ASSERT_EQ(pass.algorithms.size(), 2u) << pass.name;  // one that fails is left out
      EXPECT_EQ(pass.algorithms[0].number, 5);
      EXPECT_EQ(pass.algorithms[1].number, 6);
    }
  }
}

TEST_F(EmulatedEngines, AreNotMeasuredWithoutAChoice) {
  plan({5});
  plan({6, 5}, true);
  plan({6, 5}, false, true);
  EXPECT_TRUE(measured.empty());
  EXPECT_EQ(agreed, (std::vector<int64_t>{5, 5, 5, 5, 5,  5,  5,  5,  5,  6,  6,  6,  6, 6,
                                          6, 6, 6, 6, -1, -1, -1, -1, -1, -1, -1, -1, -1}));
}

TEST_F(EmulatedEngines, AreRecommendedWhenTheTimeIsUp) {
  seconds = 1.5;  // each pass takes 1 s
  plan({6, 5});
  EXPECT_EQ(measured.size(), 2u);
  seconds = 0;
  plan({7, 5});
  EXPECT_EQ(measured.size(), 2u);
  EXPECT_EQ(std::vector<int64_t>(agreed.begin() + 9, agreed.end()), std::vector<int64_t>(9, 7));
}

TEST_F(EmulatedEngines, OfAnEarlierRunAreNotMeasured) {
  plan({6, 5});
  ASSERT_EQ(measured.size(), 6u);
  for (const MeasuredPass& pass : measured) known[pass.name] = {9, 1, 4};  // a setting of type 1
  known[measured[5].name] = {9, 1};                                        // no list of an engine
  measured.clear();
  agreed.clear();
  plan({6, 5});
  EXPECT_EQ(agreed, (std::vector<int64_t>{9, 9, 9, 9, 9, 9, 9, 9, 6}));
  EXPECT_EQ(measured.size(), 1u);
}

TEST_F(EmulatedEngines, ThatAllFailEndTheRun) {
  try {
    plan({-1, -2});
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Exit::device);
    EXPECT_STREQ(e.what(), "none of cuDNN's 2 plans for this pass runs on this GPU");
  }
}

}  // namespace
}  // namespace ddp::testing
