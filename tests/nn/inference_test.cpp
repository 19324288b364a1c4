// A model planned for inference computes what a model planned for training computes in evaluation, with less memory.
#include "device/buffer.h"
#include "device/cpu/device.h"
#include "nn/init.h"
#include "nn/memory_plan.h"
#include "nn/model.h"
#include "nn/models.h"
#include "ops/cpu/ops.h"
#include "tests/train/token_network.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace ddp {
namespace {

constexpr int64_t kBatch = 3, kClasses = 7;
constexpr ImageShape kImage{32, 32, 3};

Network residual_network() {
  return Network("residual", kImage)
      .conv2d(16, 3, {.padding = 1})
      .batch_norm()
      .relu()
      .residual([](Network& main) { main.conv2d(32, 3, {.stride = 2, .padding = 1}).batch_norm(); },
                [](Network& shortcut) { shortcut.conv2d(32, 1, {.stride = 2}); })
      .global_avg_pool()
      .flatten()
      .linear(kClasses);
}

Network joined_network() {
  Network net = Network("joined", kImage).conv2d(16, 3, {.stride = 2});
  const int x = net.here();
  net.global_avg_pool().dropout(0.3f).gate(x).layer_scale(2).stochastic_depth(0.3f).concat(x).dropout(0.2f);
  return net.global_avg_pool().flatten().linear(kClasses);
}

void expect_same_logits(const Network& network) {
  SCOPED_TRACE(network.name());
  const auto parameters = parameters_of(network);
  const auto batch_norms = batch_norm_states_of(network);
  const auto device = make_cpu_device();
  const auto ops = make_cpu_ops(*device, {});
  const auto floats = [&](int64_t count) { return std::vector<float>(count + 16); };
  std::vector<float> weights = floats(flat_count(parameters)), gradients = weights,
                     sums = floats(state_count(batch_norms)), stats = initial_state(batch_norms);
  initialize(std::span(weights).first(flat_count(parameters)), parameters, {}, 1);
  for (size_t i = 0; i < stats.size(); ++i) stats[i] += static_cast<float>(i % 5) / 16;
  std::vector<uint8_t> pixels(kBatch * kImage.elements());
  for (size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<uint8_t>(i * i % 251);
  const DeviceBatch batch{.samples = pixels.data(), .size = kBatch};

  const auto logits_of = [&](const ModelMemory& memory, bool inference, int64_t& bytes) {
    ModelConfig config;
    config.inference = inference;
    Model model(network, parameters, batch_norms, std::span(&kBatch, 1), *device, *ops, memory, config);
    bytes = static_cast<int64_t>(model.arena().bytes());
    const Tensor logits = model.logits(batch, stats.data());
    EXPECT_EQ(logits.shape, (Shape{kBatch, {1, 1, kClasses}}));
    std::vector<float> values(kBatch * kClasses);
    ops->reorder(logits, {values.data(), logits.shape, {}, DType::f32});
    return values;
  };
  int64_t training_bytes = 0, inference_bytes = 0, own_bytes = 0;
  const auto expected = logits_of({.weights = weights.data(),
                                   .gradients = gradients.data(),
                                   .bn_batch_sums = sums.data(),
                                   .running_stats = stats.data()},
                                  false, training_bytes);
  const auto actual = logits_of({.weights = weights.data()}, true, inference_bytes);
  EXPECT_EQ(actual, expected);
  const Buffer large(*device, static_cast<size_t>(inference_bytes)), small(*device, large.bytes() - 1);
  EXPECT_EQ(logits_of({.weights = weights.data(), .arena = &large}, true, own_bytes), expected);
  EXPECT_EQ(own_bytes, 0);
  EXPECT_EQ(logits_of({.weights = weights.data(), .arena = &small}, true, own_bytes), expected);
  EXPECT_EQ(own_bytes, inference_bytes);
  EXPECT_NE(actual[0], actual[kClasses]);  // the images differ
  const int64_t least = least_inference_bytes(network, kBatch);
  EXPECT_LE(least, inference_bytes);
  EXPECT_GE(2 * 16 * least, kBatch * inference_bytes);  // some formats store batches of 16
  EXPECT_LT(inference_bytes * (network.name() == "residual" ? 2 : 1), training_bytes);
}

TEST(Inference, HasTheLogitsOfAnEvaluation) {
  for (const char* name : {"lenet", "keras-convnet", "mlp"}) expect_same_logits(make_model(name, kImage, kClasses));
  expect_same_logits(residual_network());
  expect_same_logits(joined_network());
}

// In bf16, layers keep packed copies of their weights. A tied head has that of the embedding's table.
TEST(Inference, ReadsAllTrainedWeightsAfterAStep) {
  const Network network = testing::token_network();
  const auto parameters = parameters_of(network);
  const auto device = make_cpu_device();
  const auto ops = make_cpu_ops(*device, {.precision = Precision::bf16});
  std::vector<float> weights(flat_count(parameters) + 16), gradients = weights;
  initialize(std::span(weights).first(flat_count(parameters)), parameters, {}, 1);
  std::vector<int32_t> tokens(kBatch * (testing::kWindow + 1));
  for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<int32_t>(i * i % testing::kTokenVocabulary);
  Model model(network, parameters, {}, std::span(&kBatch, 1), *device, *ops,
              {.weights = weights.data(), .gradients = gradients.data()}, {});
  const auto logits = [&] {
    const Tensor found = model.logits({.samples = reinterpret_cast<const uint8_t*>(tokens.data()),
                                       .size = kBatch,
                                       .plan = {},
                                       .sequence_length = testing::kWindow},
                                      nullptr);
    std::vector<float> values(found.shape.elements());
    ops->reorder(found, {values.data(), found.shape, {}, DType::f32});
    return values;
  };
  const auto before = logits();
  for (float& weight : weights) weight = 1.5f * weight + 0.25f;
  model.bind(false, true);
  const auto after = logits();
  EXPECT_NE(after, before);
  model.bind();
  EXPECT_EQ(after, logits());
}

}  // namespace
}  // namespace ddp
