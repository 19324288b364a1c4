#include "app/commands/predict/next_token.h"

#include "device/cpu/device.h"
#include "nn/init.h"
#include "ops/cpu/ops.h"
#include "tests/expect_error.h"
#include "tests/judge.h"
#include "tests/values.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace ddp {
namespace {

constexpr int64_t kLongest = 40, kVocabulary = 9;

ModelInfo info_of(const std::string& attention, const std::string& positions) {
  return {.model = "small",
          .graph = "layers = [ { embedding = 8, rows = \"classes\", label = \"table\" }, " + positions +
                   ", { linear = 24 }, " + attention + ", { linear = \"classes\", tied = \"table\" } ]\n",
          .image = {kLongest, 1, 1},
          .classes = kVocabulary,
          .sequence_length = kLongest};
}
const std::string kCausal = "{ scaled_dot_product_attention = 2, causal = true }";

TrainedNetwork random_network(const ModelInfo& info) {
  TrainedNetwork trained = network_without_weights(info);
  trained.state.weights = testing::random_values(flat_count(trained.parameters), 7);
  return trained;
}

// Of all positions, from the model for the longest text.
std::vector<float> all_logits(const ModelInfo& info, std::vector<int32_t> tokens) {
  const TrainedNetwork trained = random_network(info);
  const auto device = make_cpu_device();
  const auto ops = make_cpu_ops(*device, {});
  const int64_t batch = 1;
  InferenceModel model(trained, std::span(&batch, 1), *device, *ops);
  tokens.resize(kLongest + 1);
  const Tensor logits = model.model().logits(
      {.samples = reinterpret_cast<const uint8_t*>(tokens.data()), .size = 1, .sequence_length = kLongest}, nullptr);
  return {logits.f32(), logits.f32() + kLongest * kVocabulary};
}

std::vector<int32_t> tokens_of(int64_t count) {
  std::vector<int32_t> tokens;
  for (int64_t t = 0; t < count; ++t) tokens.push_back(static_cast<int32_t>((t * t + t / 5) % kVocabulary));
  return tokens;
}

void expect_equal(std::span<const float> actual, std::span<const float> expected) {
  const testing::Deviation of = testing::deviation(actual, expected);
  EXPECT_LE(of.largest_error, 1e-5 * of.largest);
}

TEST(TrainedNetworkOfTokens, RefusesMetadataOfAnImage) {
  ModelInfo info = info_of(kCausal, "{ position_embedding = 64 }");
  info.sequence_length = 0, info.image = {28, 28, 1};
  expect_error(Exit::data, {"the metadata say that small reads images, and its graph reads tokens"},
               [&] { network_without_weights(info); });
}

TEST(NextToken, GivesTheSameLogitsAtEachLength) {
  for (const char* const positions : {"{ position_embedding = 64 }", "{ position_embedding = true }"}) {
    const ModelInfo info = info_of(kCausal, positions);
    NextToken next(info, random_network(info), 1, "file");
    const std::vector<float> all = all_logits(info, tokens_of(kLongest));
    for (const int64_t count : {1, 5, 16, 17, 39, 40}) {
      SCOPED_TRACE(count);
      expect_equal(next.logits(tokens_of(count)), std::span(all).subspan((count - 1) * kVocabulary, kVocabulary));
    }
    // Of a longer text the last tokens are read.
    std::vector<int32_t> longer(5, 3);
    for (const int32_t token : tokens_of(kLongest)) longer.push_back(token);
    expect_equal(next.logits(longer), std::span(all).last(kVocabulary));
  }
}

TEST(NextToken, RefusesANetworkThatReadsLaterTokens) {
  for (const std::string& layers :
       {std::string("{ scaled_dot_product_attention = 2 }"), kCausal + ", { conv2d = 8, kernel = 3, padding = 1 }"}) {
    const ModelInfo info = info_of(layers, "{ position_embedding = 64 }");
    expect_error(Exit::model, {"small", "reads later tokens"},
                 [&] { NextToken(info, random_network(info), 1, "file"); });
  }
}

TEST(PlannedLengths, DoubleUpToTheLongest) {
  EXPECT_EQ(planned_lengths(1024), (std::vector<int64_t>{16, 32, 64, 128, 256, 512, 1024}));
  EXPECT_EQ(planned_lengths(40), (std::vector<int64_t>{16, 32, 40}));
  EXPECT_EQ(planned_lengths(16), (std::vector<int64_t>{16}));
  EXPECT_EQ(planned_lengths(3), (std::vector<int64_t>{3}));
}

}  // namespace
}  // namespace ddp
