// Gradients through graphs whose values have several readers: on the reference ops they are the central differences of
// the loss, and the ops of the CPU, with their formats, give the same.
#include "device/cpu/device.h"
#include "nn/freeze.h"
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
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace ddp::testing {
namespace {

constexpr int64_t kSamples = 5, kGraphClasses = 3;
constexpr ImageShape kSmall{6, 5, 2};

// A call of run() is one forward and backward pass.
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
    if (network.reads_tokens()) {
      length_ = network.input().h;
      const int64_t rows = network.layers().front().rows;
      for (int64_t i = 0; i < kSamples * (length_ + 1); ++i)
        tokens_.push_back(static_cast<int32_t>((i * i + i / 3) % (rows - 1)));  // one row has no token
    }
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

  // Returns the sum of the losses. `gradients` has then that of their mean, which a later micro-batch adds.
  double run(int micro = 0) {
    model_->bind();
    std::vector<int32_t> keys(kSamples);
    std::iota(keys.begin(), keys.end(), 40);
    model_->forward_backward(
        {.samples = length_ > 0 ? reinterpret_cast<const uint8_t*>(tokens_.data()) : pixels_.data(),
         .labels = labels_,
         .keys = keys.data(),
         .size = kSamples,
         .plan = {.size = kSamples, .global_size = kSamples, .step_size = kSamples, .micro = micro},
         .sequence_length = length_},
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
  std::vector<int32_t> tokens_;
  int64_t length_ = 0;  // of a sequence; 0: samples are images
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

// A transformer of one block for up to eight tokens.
Network gpt(bool tied) {
  Network net("gpt", {5, 1, 1});
  const int table = net.named("wte").embedding(6, 7).here();
  const int x = net.named("wpe").position_embedding(8).dropout(0.2f).here();
  net.layer_norm().linear(18).transposed().scaled_dot_product_attention(2, true).linear(6).transposed().add(x);
  net.layer_norm().named("head");
  return tied ? net.tied_linear(table) : net.linear(7, false);
}
const Network kGpt = gpt(true);

const std::vector<Network> kGraphs{squeeze_and_excitation(),
                                   dense_chain(),
                                   deep_residual(),
                                   three_readers(),
                                   gated_image(),
                                   joined_image(),
                                   two_formats(),
                                   class_token(),
                                   kGpt,
                                   gpt(false)};

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

const Parameter& parameter_of(const Trainee& trainee, const std::string& name) {
  return *std::ranges::find(trainee.parameters, name, &Parameter::name);
}

// A twin has a head of its own with the same weights.
TEST(Graph, TiedTableHasTheSumOfTheGradientsOfItsUses) {
  for (const bool reference : {true, false}) {
    Trainee tied(kGpt, reference), twin(gpt(false), reference);
    EXPECT_EQ(tied.parameters.size() + 1, twin.parameters.size());
    for (const Parameter& p : twin.parameters) {
      const Parameter& from = parameter_of(tied, p.name == "head.weight" ? "wte.weight" : p.name);
      std::copy_n(tied.weights.begin() + from.offset, p.count, twin.weights.begin() + p.offset);
    }
    const double loss = tied.run();
    EXPECT_NEAR(twin.run(), loss, 1e-6);
    const Parameter& table = parameter_of(tied, "wte.weight");
    const auto of_rows = twin.gradient(parameter_of(twin, "wte.weight")),
               of_head = twin.gradient(parameter_of(twin, "head.weight"));
    Values sum, doubled;
    for (int64_t i = 0; i < table.count; ++i) sum.push_back(of_rows[i] + of_head[i]);
    expect_close({tied.gradient(table).begin(), tied.gradient(table).end()}, sum, "the table");
    // The table is one of the announced parameters, and the last one.
    const auto id = static_cast<int>(&table - tied.parameters.data());
    EXPECT_EQ(std::ranges::count(tied.announced, id), 1);
    EXPECT_EQ(tied.announced.back(), id);
    tied.run(1);
    for (const float v : sum) doubled.push_back(2 * v);
    expect_close({tied.gradient(table).begin(), tied.gradient(table).end()}, doubled, "the table after two batches");
  }
}

// A frozen parameter has no place in the gradients.
TEST(Graph, FrozenTableFreezesItsTiedHeadAndKeepsTheOtherGradients) {
  for (const bool reference : {true, false}) {
    const Network frozen = freeze(kGpt, std::vector<std::string>{"wte"});
    Trainee all(kGpt, reference), part(frozen, reference);
    for (const Parameter& p : part.parameters)
      std::copy_n(all.weights.begin() + parameter_of(all, p.name).offset, p.count, part.weights.begin() + p.offset);
    part.gradients.assign(part.gradients.size(), 77);
    EXPECT_NEAR(all.run(), part.run(), 1e-6);
    EXPECT_EQ(part.announced.size() + 1, all.announced.size());
    for (const Parameter& p : part.parameters) {
      const auto found = part.gradient(p), of_all = all.gradient(parameter_of(all, p.name));
      const Values expected = p.trained ? Values(of_all.begin(), of_all.end()) : Values(p.count, 77.0f);
      EXPECT_EQ(p.trained, p.name != "wte.weight");
      expect_close({found.begin(), found.end()}, expected, p.name.c_str());
    }
  }
}

// The table has eight positions, of which the input has five.
TEST(Graph, UnusedPositionsHaveNoGradient) {
  for (const bool reference : {true, false}) {
    Trainee trainee(kGpt, reference);
    const Parameter& table = parameter_of(trainee, "wpe.weight");
    const auto unused = trainee.gradient(table).subspan(5 * 6);
    trainee.gradients.assign(trainee.gradients.size(), 7);
    trainee.run();
    EXPECT_EQ(Values(unused.begin(), unused.end()), Values(3 * 6, 0.0f));
    const Values once(trainee.gradient(table).begin(), trainee.gradient(table).end());
    trainee.gradients.assign(trainee.gradients.size(), 7);
    trainee.run(1);
    Values expected;
    for (const float v : once) expected.push_back(v + 7);
    expect_close({trainee.gradient(table).begin(), trainee.gradient(table).end()}, expected, "added");
    EXPECT_EQ(Values(unused.begin(), unused.end()), Values(3 * 6, 7.0f));
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
