// A model for training on the CPU, in tests of gradients.
#pragma once

#include "device/cpu/device.h"
#include "nn/init.h"
#include "nn/model.h"
#include "ops/cpu/ops.h"
#include "tests/ops/reference/ops.h"
#include "tests/values.h"

#include <cstdint>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <vector>

namespace ddp::testing {

inline constexpr int64_t kSamples = 5, kGraphClasses = 3;
inline constexpr ImageShape kSmall{6, 5, 2};

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

}  // namespace ddp::testing
