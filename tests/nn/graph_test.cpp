// Gradients through graphs whose values have several readers: on the reference ops they are the central differences of
// the loss, and the ops of the CPU, with their formats, give the same.
#include "device/cpu/device.h"
#include "nn/init.h"
#include "nn/model.h"
#include "ops/cpu/ops.h"
#include "tests/expect_error.h"
#include "tests/ops/reference/ops.h"
#include "tests/values.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

namespace ddp::testing {
namespace {

constexpr int64_t kSamples = 5, kGraphClasses = 3;
constexpr ImageShape kSmall{6, 5, 2};

// A model for training on the CPU. A call of run() is one forward and backward pass.
class Trainee {
 public:
  Trainee(const Network& network, bool reference)
      : parameters(parameters_of(network)),
        norms_(batch_norm_states_of(network)),
        device_(make_cpu_device()),
        ops_(reference ? make_reference_ops(*device_) : make_cpu_ops(*device_, {})),
        weights(flat_count(parameters) + 16),
        gradients(weights.size()),
        sums_(state_count(norms_) + 1),
        stats_(initial_state(norms_)) {
    initialize(std::span(weights).first(flat_count(parameters)), parameters, {}, 1);
    for (const Parameter& p : parameters) {
      const Values noise = random_values(p.count, p.offset + 3);
      if (p.role != Parameter::Role::weight && p.role != Parameter::Role::norm_scale)
        for (int64_t i = 0; i < p.count; ++i) weights[p.offset + i] += 0.5f * noise[i];
    }
    for (size_t i = 0; i < pixels_.size(); ++i) pixels_[i] = static_cast<uint8_t>(i * i % 251);
    for (int32_t i = 0; i < kSamples; ++i) labels_[i] = i * i % static_cast<int32_t>(kGraphClasses);
    ModelConfig config;
    config.seed = 9;
    config.pixel_scale = {.scale = {1 / 128.0f, 1 / 100.0f, 1 / 128.0f}, .shift = {-1, -1, -1}};
    model_.emplace(network, parameters, norms_, std::span(&kSamples, 1), *device_, *ops_,
                   ModelMemory{.weights = weights.data(),
                               .gradients = gradients.data(),
                               .bn_batch_sums = sums_.data(),
                               .running_stats = stats_.data(),
                               .loss_stats = loss_,
                               .epoch = &epoch_},
                   config);
  }

  // Returns the sum of the losses. `gradients` has then that of their mean.
  double run() {
    model_->bind();
    std::vector<int32_t> keys(kSamples);
    std::iota(keys.begin(), keys.end(), 40);
    model_->forward_backward({.samples = pixels_.data(),
                              .labels = labels_,
                              .keys = keys.data(),
                              .size = kSamples,
                              .plan = {.size = kSamples, .global_size = kSamples, .step_size = kSamples}},
                             [&](int id) { announced.push_back(id); });
    return static_cast<double>(loss_[0]);
  }
  std::span<const float> gradient(const Parameter& p) const { return std::span(gradients).subspan(p.offset, p.count); }

  const std::vector<Parameter> parameters;
  std::vector<int> announced;  // ids of parameters

 private:
  const std::vector<BatchNormState> norms_;
  std::unique_ptr<Device> device_;
  std::unique_ptr<Ops> ops_;

 public:
  std::vector<float> weights, gradients;

 private:
  std::vector<float> sums_, stats_;
  std::vector<uint8_t> pixels_ = std::vector<uint8_t>(kSamples * 16 * 16 * 3);
  int32_t labels_[kSamples] = {};
  float loss_[2] = {};
  uint32_t epoch_ = 2;
  std::optional<Model> model_;
};

Network& head(Network& network) { return network.global_avg_pool().flatten().linear(kGraphClasses); }

Network squeeze_and_excitation() {
  Network net = Network("squeeze", kSmall).conv2d(16, 3, {.padding = 1});
  const int x = net.here();
  net.global_avg_pool().conv2d(4, 1).conv2d(16, 1).gate(x).conv2d(32, 3);
  return head(net);
}

Network dense_chain() {
  Network net = Network("dense", kSmall).conv2d(16, 3, {.padding = 1});
  for (int i = 0; i < 3; ++i) {
    const int value = net.here();
    net.conv2d(8, 3, {.padding = 1}).concat(value);  // from 16 to 40 channels
  }
  return head(net);
}

Network deep_residual() {
  Network net = Network("residual", kSmall).conv2d(6, 3);
  for (int i = 0; i < 3; ++i) {
    const int value = net.here();
    net.conv2d(6, 3, {.padding = 1}).layer_scale(0.5f).stochastic_depth(0.4f).add(value);
  }
  return head(net);
}

Network three_readers() {
  Network net = Network("three readers", kSmall).conv2d(16, 3).dropout(0.2f);
  const int x = net.here();
  const int a = net.conv2d(16, 1).here();
  const int b = net.from(x).conv2d(16, 3, {.padding = 1}).here();
  net.from(x).global_avg_pool().gate(x).add(a).concat(b);
  return head(net);
}

Network gated_image() {
  Network net("gated image", kSmall);
  net.conv2d(4, 3).global_avg_pool().conv2d(2, 1).gate(LayerSpec::kImage).conv2d(5, 3);
  return head(net);
}

Network joined_image() {
  Network net("joined image", kSmall);
  net.conv2d(3, 3, {.padding = 1}).concat(LayerSpec::kImage).conv2d(5, 3);
  return head(net);
}

// On the CPU, our own kernels convolve 20 and 24 channels, with samples side by side, and oneDNN 32, in blocks.
Network two_formats() {
  Network net = Network("two formats", kSmall).conv2d(20, 3, {.padding = 1}).conv2d(32, 1);
  const int x = net.here();
  const int a = net.conv2d(24, 3, {.padding = 1}).conv2d(32, 1).here();
  const int b = net.from(x).conv2d(32, 3, {.padding = 1}).here();
  net.add(a).concat(b).conv2d(24, 1).concat(x);
  return head(net);
}

Network class_token() {
  Network net = Network("tokens", kSmall).conv2d(6, 2, {.stride = 2});
  net.tokens().class_token().position_embedding().dropout(0.2f);
  const int all = net.here();
  net.first_token().gate(all);
  return head(net);
}

const std::vector<Network> kGraphs{
    squeeze_and_excitation(), dense_chain(), deep_residual(), three_readers(), gated_image(),
    joined_image(),           two_formats(), class_token()};

// Some values of each parameter, because each takes two passes.
TEST(Graph, GradientsMatchFiniteDifferences) {
  constexpr float kStep = 1.0f / 64;
  for (const Network& network : kGraphs) {
    SCOPED_TRACE(network.name());
    Trainee trainee(network, true);
    trainee.run();
    EXPECT_EQ(trainee.announced.size(), trainee.parameters.size());
    const std::vector<float> gradients = trainee.gradients;
    for (const Parameter& p : trainee.parameters) {
      Values found, expected;
      for (int64_t i = 0; i < p.count; i += std::max<int64_t>(1, p.count / 7)) {
        float& weight = trainee.weights[p.offset + i];
        const float before = weight;
        weight = before + kStep;
        const double up = trainee.run();
        weight = before - kStep;
        const double down = trainee.run();
        weight = before;
        found.push_back(gradients[p.offset + i]);
        expected.push_back(static_cast<float>((up - down) / (2 * kStep) / kSamples));
      }
      const Deviation of = deviation(found, expected);
      EXPECT_GT(of.norm, 1e-5) << p.name;
      EXPECT_LE(of.error, 1e-2 * of.norm + 1e-5) << p.name;
    }
  }
}

void expect_equal_gradients(const Network& network, double bound) {
  Trainee expected(network, true), actual(network, false);
  EXPECT_NEAR(actual.run(), expected.run(), 1e-4);
  EXPECT_EQ(actual.announced, expected.announced);
  const double least = 1e-3 * deviation(expected.gradients, expected.gradients).norm;
  for (const Parameter& p : actual.parameters) {
    const Deviation of = deviation(actual.gradient(p), expected.gradient(p));
    EXPECT_LE(of.error, bound * std::max(of.norm, least)) << p.name;
  }
}

TEST(Graph, CpuHasTheGradientsOfTheReference) {
  for (const Network& network : kGraphs) {
    SCOPED_TRACE(network.name());
    expect_equal_gradients(network, 1e-4);
  }
}

// A random graph: each layer reads any earlier value, and all values that nothing reads are joined at the end. Every
// second one has layers that make all activations dense. Channels are multiples of four.
Network random_graph(uint64_t seed) {
  uint64_t state = seed * 0x9e3779b97f4a7c15u + 1;
  const auto draw = [&](int64_t below) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return static_cast<int64_t>((state >> 33) % static_cast<uint64_t>(below));
  };
  const bool dense = seed % 2 == 1;
  Network net =
      Network(fmt::format("graph {}", seed), kSmall).conv2d(8 + 8 * draw(3), 3, {.groups = dense ? kSmall.c : 1});
  std::vector<int> values{net.here()}, unread;
  const auto channels = [&](int value) { return net.layers()[static_cast<size_t>(value)].output.c; };
  const auto read = [&](int value) { std::erase(unread, value); };
  const auto add_dense = [&](int64_t c) {
    switch (draw(5)) {
      case 0: net.linear(8 + 4 * draw(4)); break;
      case 1: net.layer_norm(); break;
      case 2: net.group_norm(1 << draw(3)); break;
      case 3: net.conv2d(c, 3, {.padding = 2, .groups = c, .dilation = 2}); break;
      default: net.conv2d(8 + 8 * draw(3), 3, {.padding = 1, .groups = 2 + 2 * draw(2)});
    }
  };
  for (int i = 0; i < 9; ++i) {
    const int value = values[draw(std::ssize(values))], other = values[draw(std::ssize(values))];
    read(value);
    net.from(value);
    switch (draw(dense ? 14 : 9)) {
      case 0: net.conv2d(8 + 8 * draw(4), 3, {.padding = 1}); break;
      case 1: net.conv2d(channels(value), 1).batch_norm().add(value); break;
      case 2: net.global_avg_pool().conv2d(channels(value), 1).gate(value); break;
      case 3: net.layer_scale(0.5f).stochastic_depth(0.3f); break;
      case 4: net.conv2d(12, 1).activation({static_cast<Activation::Kind>(1 + draw(10))}); break;
      case 5: net.conv2d(12, 1).batch_norm().activation({static_cast<Activation::Kind>(1 + draw(10))}); break;
      case 6:
        if (channels(other) == channels(value)) {
          read(other);
          net.add(other);
          break;
        }
        [[fallthrough]];
      case 7:
      case 8:
        if (channels(other) + channels(value) > 64) {
          net.max_pool2d(3, 1, 1);
          break;
        }
        read(other);
        net.concat(other);
        break;
      default: add_dense(channels(value));
    }
    values.push_back(net.here());
    unread.push_back(values.back());
  }
  net.from(unread.at(0));
  for (size_t i = 1; i < unread.size(); ++i) net.concat(unread[i]);
  EXPECT_EQ(head(net).prefers_dense(), dense);
  return net;
}

TEST(Graph, RandomGraphsHaveTheGradientsOfTheReference) {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    const Network network = random_graph(seed);
    SCOPED_TRACE(network.name());
    expect_equal_gradients(network, 5e-4);
  }
}

TEST(Graph, RefusesAValueThatNothingReads) {
  Network net = Network("unread", kSmall).conv2d(4, 3);
  const int x = net.here();
  net.named("forgotten").conv2d(4, 1).from(x);
  expect_error(Exit::model, {"model unread: no layer reads the output of layer forgotten (conv2d)"},
               [&] { Trainee(head(net), true); });
}

}  // namespace
}  // namespace ddp::testing
