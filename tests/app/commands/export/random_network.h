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

// A network with random weights and statistics.
struct RandomNetwork {
  explicit RandomNetwork(const Network& network_) : network(network_) {
    state.weights.resize(flat_count(parameters) + 16);
    initialize(std::span(state.weights).first(flat_count(parameters)), parameters, {}, 1);
    for (const Parameter& p : parameters) {
      const auto noise = random_values(p.count, p.offset + 1);
      const float centre = p.role == Parameter::Role::norm_scale ? 1 : 0;
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
    std::vector<uint8_t> images = pixels;
    const Tensor result = model.logits({.images = images.data(), .size = kImages}, statistics.data());
    std::vector<float> values(kImages * kClasses);
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

  const Network network;
  const std::vector<Parameter> parameters = parameters_of(network);
  const std::vector<BatchNormState> norms = batch_norm_states_of(network);
  ModelState state;
  std::vector<uint8_t> pixels = std::vector<uint8_t>(kImages * kImage.elements());
};

}  // namespace ddp::testing
