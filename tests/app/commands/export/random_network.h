// Networks with random weights and statistics, to export.
#pragma once

#include "app/commands/export/exported_network.h"
#include "app/commands/export/onnx_model.h"
#include "checkpoint/state_dict.h"
#include "device/cpu/device.h"
#include "nn/init.h"
#include "nn/model.h"
#include "nn/models.h"
#include "ops/cpu/ops.h"
#include "tests/app/commands/export/onnx_interpreter.h"
#include "tests/values.h"

#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

namespace ddp::testing {

constexpr ImageShape kImage{16, 14, 3};
constexpr int64_t kClasses = 7, kImages = 2;
constexpr PixelScale kPixels{.scale = {0.01f, 0.02f, 0.015f}, .shift = {-1, -2.5f, -2}};

// Each kind of layer, pools that leave rows and columns uncovered, and batch norms that can and cannot be folded.
inline Network probe() {
  return Network("probe", kImage)
      .batch_norm()  // kept: nothing before it
      .conv2d(8, 3, {.stride = 2, .same = true, .bias = false})
      .batch_norm({.epsilon = 1e-3f, .scale = false})
      .relu()
      .batch_norm()  // kept: after a ReLU
      .max_pool2d(3, 2, 1)
      .residual([](Network& main) { main.conv2d(8, 3, {.padding = 1}).batch_norm(); }, [](Network&) {})
      .conv2d(8, 1)
      .residual([](Network& main) { main.batch_norm(); }, [](Network&) {})  // kept: two layers read the convolution
      .avg_pool2d(3)
      .dropout(0.5f)
      .flatten()
      .linear(9)
      .batch_norm()
      .relu()
      .linear(kClasses)
      .dropout(0.5f);
}

// Layers that join and scale values, in each layout that they may have in ONNX.
inline Network joins() {
  Network net = Network("joins", kImage).conv2d(8, 3, {.stride = 2}).batch_norm().relu();
  const int x = net.here();
  net.global_avg_pool().conv2d(4, 1).relu().conv2d(8, 1).gate(x);
  const int gated = net.here();
  net.conv2d(8, 3, {.padding = 1}).batch_norm().layer_scale(0.5f).stochastic_depth(0.3f).add(gated).concat(x);
  net.conv2d(6, 2, {.stride = 2}).tokens().class_token().position_embedding().dropout(0.2f).layer_scale(2);
  const int tokens = net.here();
  net.first_token().gate(tokens).concat(tokens).global_avg_pool().flatten();
  const int flat = net.here();
  net.linear(9, false).batch_norm().layer_scale(0.5f).concat(flat);
  const int both = net.here();
  return net.linear(21).gate(both).linear(kClasses);
}

// A convolution and the other activations than a ReLU.
inline Network activated() {
  using enum Activation::Kind;
  Network net = Network("activated", kImage).conv2d(6, 3);
  for (const auto kind : {relu6, leaky_relu, sigmoid, hard_sigmoid, silu, hard_swish, gelu, gelu_tanh, tanh})
    net.conv2d(6, 1).activation({.kind = kind, .slope = 0.2f});
  return net.adaptive_avg_pool(7, 6).adaptive_avg_pool(7, 6).adaptive_avg_pool(1, 1).flatten().linear(kClasses);
}

// Groups and norms of a sample, with a linear layer at each position.
inline Network grouped() {
  Network net = Network("grouped", kImage).conv2d(8, 3, {.bias = false, .dilation = 2}).batch_norm();
  const int x = net.conv2d(8, 3, {.padding = 1, .groups = 8}).batch_norm().group_norm(2).here();
  net.conv2d(8, 3, {.padding = 1, .groups = 2}).layer_norm(1e-6f).linear(12).relu().linear(8, false).layer_scale(0.5f);
  return net.add(x).layer_norm().global_avg_pool().flatten().layer_norm().linear(kClasses);
}

// Two blocks of a transformer.
inline Network transformer() {
  Network net = Network("transformer", kImage).conv2d(12, 4, {.stride = 4});
  net.tokens().class_token().position_embedding();
  for (const bool causal : {false, true}) {
    const int x = net.here();
    const int y = net.layer_norm(1e-6f).attention(3, causal).add(x).here();
    net.layer_norm(1e-6f).linear(20).activation({.kind = Activation::Kind::gelu}).linear(12).add(y);
  }
  return net.layer_norm(1e-6f).first_token().linear(kClasses);
}

constexpr int64_t kTokens = 6, kVocabulary = 11;

// GPT-2's block, with a table of more positions than tokens.
inline Network gpt() {
  Network net("gpt", {kTokens, 1, 1});
  const int table = net.named("wte").embedding(8, kVocabulary).here();
  const int x = net.named("wpe").position_embedding(kTokens + 3).here();
  net.layer_norm().linear(24).transposed().scaled_dot_product_attention(2, true).linear(8).transposed().add(x);
  const int attended = net.here();
  net.layer_norm().linear(12).transposed().activation({.kind = Activation::Kind::gelu_tanh});
  return net.linear(8).add(attended).layer_norm().tied_linear(table);
}

// A network with random weights and statistics.
struct RandomNetwork {
  explicit RandomNetwork(const Network& network_) : network(network_) {
    state.weights.resize(flat_count(parameters) + 16);
    std::vector<Parameter> drawn = parameters;
    for (Parameter& p : drawn)  // zeros and small weights would hide the image
      if (p.init.kind != InitRule::Kind::pytorch)
        p.init = {InitRule::Kind::uniform, std::sqrt(6.0 / static_cast<double>(p.fan_in))};
    initialize(std::span(state.weights).first(flat_count(parameters)), drawn, {}, 1);
    for (const Parameter& p : parameters) {
      const auto noise = random_values(p.count, p.offset + 1);
      const bool factor = p.role == Parameter::Role::norm_scale || p.role == Parameter::Role::layer_scale;
      const float centre = factor ? 1 : 0;
      if (p.role != Parameter::Role::weight)
        for (int64_t i = 0; i < p.count; ++i) state.weights[p.offset + i] = centre + 0.5f * noise[i];
    }
    state.statistics = random_values(state_count(norms), 3);
    for (const BatchNormState& norm : norms)
      for (int64_t c = 0; c < norm.span.channels; ++c) {
        state.statistics[norm.span.offset + c] *= 0.3f;
        float& variance = state.statistics[norm.span.offset + norm.span.channels + c];
        variance = 1 + 0.9f * variance;
      }
    for (size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<uint8_t>(i * i % 251);
    for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<int32_t>((i * i + i / 7) % kVocabulary);
  }

  ExportedNetwork exported() const { return {network, named_tensors(parameters, norms, state.view())}; }

  std::vector<float> logits() const {
    const auto device = make_cpu_device();
    const auto ops = make_cpu_ops(*device, {});
    ModelConfig config;
    config.inference = true;
    config.pixel_scale = kPixels;
    std::vector<float> weights = state.weights, statistics = state.statistics;
    Model model(network, parameters, norms, std::span(&kImages, 1), *device, *ops,
                {.weights = weights.data(), .running_stats = statistics.data()}, config);
    const bool reads_tokens = network.reads_tokens();
    const auto* const samples = reads_tokens ? reinterpret_cast<const uint8_t*>(tokens.data()) : pixels.data();
    const Tensor result = model.logits(
        {.samples = samples, .size = kImages, .sequence_length = reads_tokens ? kTokens : 0}, statistics.data());
    std::vector<float> values(kImages * network.output().elements());
    ops->reorder(result, {values.data(), result.shape, {}, DType::f32});
    return values;
  }

  OnnxValue bytes() const { return {{kImages, kImage.h, kImage.w, kImage.c}, {pixels.begin(), pixels.end()}}; }
  OnnxValue normalized() const {
    OnnxValue x{{kImages, kImage.c, kImage.h, kImage.w}, {}};
    for (int64_t n = 0; n < kImages; ++n)
      for (int64_t c = 0; c < kImage.c; ++c)
        for (int64_t i = 0; i < kImage.h * kImage.w; ++i)
          x.values.push_back(double{kPixels.scale[c]} * pixels[(n * kImage.h * kImage.w + i) * kImage.c + c] +
                             kPixels.shift[c]);
    return x;
  }

  OnnxValue first_tokens(int64_t length) const {
    OnnxValue x{{kImages, length}, {}};
    for (int64_t n = 0; n < kImages; ++n)
      for (int64_t t = 0; t < length; ++t) x.values.push_back(tokens[n * (kTokens + 1) + t]);
    return x;
  }

  const Network network;
  const std::vector<Parameter> parameters = parameters_of(network);
  const std::vector<BatchNormState> norms = batch_norm_states_of(network);
  ModelState state;
  std::vector<uint8_t> pixels = std::vector<uint8_t>(kImages * kImage.elements());
  std::vector<int32_t> tokens = std::vector<int32_t>(kImages * (kTokens + 1));
};

}  // namespace ddp::testing
