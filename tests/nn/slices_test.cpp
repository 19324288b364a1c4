// A model that runs slice by slice computes what it computes in whole batches.
#include "device/cpu/device.h"
#include "nn/init.h"
#include "nn/model.h"
#include "ops/cpu/ops.h"
#include "tests/values.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <numeric>
#include <span>
#include <vector>

namespace ddp::testing {
namespace {

constexpr int64_t kSlicedSamples = 21, kSlicedClasses = 10;  // not a multiple of any slice
constexpr ImageShape kSlicedImages{32, 32, 3};

enum class Shortcut { none, relu, gelu };

// A stem, a block with the identity, and one with a projection, whose norm may have an activation.
Network sliced_network(bool pool, Shortcut activation = Shortcut::none) {
  Network net("residual", kSlicedImages);
  net.conv2d(32, 3, {.padding = 1}).batch_norm().relu();
  if (pool) net.max_pool2d(3, 1, 1);
  net.residual(
      [](Network& n) {
        n.conv2d(32, 3, {.padding = 1, .bias = false}).batch_norm().relu();
        n.conv2d(32, 3, {.padding = 1, .bias = false}).batch_norm();
      },
      [](Network&) {});
  net.residual(
      [](Network& n) {
        n.conv2d(64, 1).batch_norm().relu();
        n.conv2d(64, 3, {.stride = 2, .padding = 1}).batch_norm();
      },
      [&](Network& n) {
        n.conv2d(64, 1, {.stride = 2}).batch_norm();
        if (activation == Shortcut::relu) n.relu();
        if (activation == Shortcut::gelu) n.activation({Activation::Kind::gelu});
      });
  net.global_avg_pool().flatten().linear(kSlicedClasses);
  return net;
}

class SlicedModel {
 public:
  // `shift`: of all batch norms. At 6 no ReLU has a choice, so rounding cannot change one.
  SlicedModel(const Network& network, const CpuOpsConfig& config, float shift, bool sync_bn = false)
      : parameters(parameters_of(network)),
        sync_bn_(sync_bn),
        norms_(batch_norm_states_of(network)),
        device_(make_cpu_device()),
        ops_(make_cpu_ops(*device_, config)),
        weights_(flat_count(parameters) + 16),
        gradients(weights_.size()),
        sums(state_count(norms_)),
        stats_(initial_state(norms_)),
        pixels_(static_cast<size_t>(kSlicedSamples * kSlicedImages.elements())) {
    initialize(std::span(weights_).first(flat_count(parameters)), parameters, {}, 1);
    for (const Parameter& p : parameters)
      if (p.role == Parameter::Role::norm_shift) std::fill_n(weights_.begin() + p.offset, p.count, shift);
    for (size_t i = 0; i < pixels_.size(); ++i) pixels_[i] = static_cast<uint8_t>(i * i % 251);
    for (int32_t i = 0; i < kSlicedSamples; ++i) labels_[i] = i * i % static_cast<int32_t>(kSlicedClasses);
    std::iota(std::begin(keys_), std::end(keys_), 40);
    ModelConfig of_model;
    of_model.pixel_scale = {.scale = {1 / 128.0f, 1 / 100.0f, 1 / 128.0f}, .shift = {-1, -1, -1}};
    of_model.sync_bn = sync_bn;
    if (sync_bn)
      of_model.all_reduce = [this](float* values, int64_t count) {
        for (int64_t i = 0; i < count; ++i) values[i] *= 2;  // two ranks with the same values
        reduced.push_back(count);
      };
    model = std::make_unique<Model>(network, parameters, norms_, std::span(&kSlicedSamples, 1), *device_, *ops_,
                                    ModelMemory{.weights = weights_.data(),
                                                .gradients = gradients.data(),
                                                .bn_batch_sums = sums.data(),
                                                .running_stats = stats_.data(),
                                                .loss_stats = loss,
                                                .epoch = &epoch_},
                                    of_model);
  }

  void train(int micro = 0, int64_t size = kSlicedSamples) {
    model->forward_backward(batch(micro, size), [&](int id) { announced.push_back(id); });
  }
  DeviceBatch batch(int micro = 0, int64_t size = kSlicedSamples) const {
    const int64_t ranks = sync_bn_ ? 2 : 1;
    return {
        .samples = pixels_.data(),
        .labels = labels_,
        .keys = keys_,
        .size = size,
        .plan = {
            .size = size, .global_size = ranks * kSlicedSamples, .step_size = ranks * kSlicedSamples, .micro = micro}};
  }
  const float* stats() const { return stats_.data(); }

  const std::vector<Parameter> parameters;
  std::vector<int> announced;    // ids of parameters
  std::vector<int64_t> reduced;  // counts of the sums over ranks

 private:
  const bool sync_bn_;
  const std::vector<BatchNormState> norms_;
  std::unique_ptr<Device> device_;
  std::unique_ptr<Ops> ops_;
  std::vector<float> weights_;

 public:
  std::vector<float> gradients, sums;
  float loss[2] = {};
  std::unique_ptr<Model> model;

 private:
  std::vector<float> stats_;
  std::vector<uint8_t> pixels_;
  int32_t labels_[kSlicedSamples] = {}, keys_[kSlicedSamples] = {};
  uint32_t epoch_ = 2;
};

// The difference over the norm of b, or over `least` if that is more. NaN if a value is.
double relative_difference(std::span<const float> a, std::span<const float> b, double least = 0) {
  const Deviation of = deviation(a, b);
  return of.error / std::max({of.norm, least, 1e-30});
}

CpuOpsConfig config_of(Precision precision, int64_t slice_bytes, int threads = 1) {
  CpuOpsConfig config;
  config.precision = precision;
  config.slice_bytes = slice_bytes;
  config.threads = threads;
  return config;
}

std::vector<int> sorted(std::vector<int> values) {
  std::ranges::sort(values);
  return values;
}

void expect_same(const SlicedModel& one, const SlicedModel& other, double bound) {
  EXPECT_LE(std::abs(one.loss[0] - other.loss[0]), bound * kSlicedSamples);
  EXPECT_LE(relative_difference(one.sums, other.sums), bound);
  const double least =
      1e-3 * deviation(other.gradients, other.gradients).norm;  // the true gradient of a bias before a batch norm is 0
  for (const Parameter& p : one.parameters)
    EXPECT_LE(relative_difference(std::span(one.gradients).subspan(p.offset, p.count),
                                  std::span(other.gradients).subspan(p.offset, p.count), least),
              bound)
        << p.name;
  EXPECT_EQ(sorted(one.announced), sorted(other.announced));
}

// A budget of one byte gives the smallest slices.
class Slices : public ::testing::TestWithParam<Precision> {
 protected:
  Slices() : bf16_(GetParam() == Precision::bf16) {}
  double bound() const { return bf16_ ? 0.03 : 1e-4; }

  bool bf16_;
};

// The second micro-batch adds.
TEST_P(Slices, GiveTheGradientsOfWholeBatches) {
  const Network network = sliced_network(false);
  SlicedModel sliced(network, config_of(GetParam(), 1), 6), whole(network, config_of(GetParam(), 0), 6);
  for (const int micro : {0, 1}) {
    sliced.train(micro);
    whole.train(micro);
    expect_same(sliced, whole, bound());
  }
  EXPECT_EQ(sliced.announced.size(), 2 * sliced.parameters.size());
}

// Rounding moves the choice of some ReLUs and windows.
TEST_P(Slices, GiveTheGradientsOfReluAndPool) {
  const Network network = sliced_network(true);
  SlicedModel sliced(network, config_of(GetParam(), 1), 0), whole(network, config_of(GetParam(), 0), 0);
  sliced.train();
  whole.train();
  expect_same(sliced, whole, bf16_ ? 0.1 : 0.03);
}

// The norm of the shortcut changes the gradient that the norm which adds reads too.
TEST_P(Slices, GiveTheGradientsOfAnActivatedShortcut) {
  for (const Shortcut activation : {Shortcut::relu, Shortcut::gelu}) {
    const Network network = sliced_network(false, activation);
    SlicedModel sliced(network, config_of(GetParam(), 1), 0), whole(network, config_of(GetParam(), 0), 0);
    sliced.train();
    whole.train();
    expect_same(sliced, whole, bf16_ ? 0.1 : 0.03);
  }
}

TEST_P(Slices, MoveFewerBytes) {
  const Network network = sliced_network(true);
  SlicedModel sliced(network, config_of(GetParam(), 16 << 20), 0), whole(network, config_of(GetParam(), 0), 0);
  EXPECT_EQ(whole.model->traffic(), whole.model->whole_traffic());
  EXPECT_EQ(sliced.model->whole_traffic(), whole.model->traffic());
  EXPECT_LT(sliced.model->traffic(), 0.6 * static_cast<double>(whole.model->traffic()));
}

TEST_P(Slices, GiveTheEvaluationsOfWholeBatches) {
  const Network network = sliced_network(true);
  SlicedModel sliced(network, config_of(GetParam(), 1), 0), whole(network, config_of(GetParam(), 0), 0);
  for (SlicedModel* m : {&sliced, &whole}) {
    m->model->precise_bn(m->batch(), Gradient::overwrite);
    m->model->precise_bn(m->batch(), Gradient::add);
    m->model->evaluate(m->batch(), m->stats(), m->loss);
  }
  EXPECT_GT(sliced.loss[0], 0);
  expect_same(sliced, whole, bound());
}

// Sums over ranks come in the same order, also on a rank whose batch is empty.
TEST_P(Slices, MakeTheSameCollectives) {
  const Network network = sliced_network(false);
  SlicedModel sliced(network, config_of(GetParam(), 1), 6, true), whole(network, config_of(GetParam(), 0), 6, true),
      empty(network, config_of(GetParam(), 1), 6, true);
  sliced.train();
  whole.train();
  empty.train(0, 0);
  expect_same(sliced, whole, bound());
  EXPECT_EQ(sliced.reduced.size(), 2u * 6);  // forward and backward of each norm
  EXPECT_EQ(sliced.reduced, whole.reduced);
  EXPECT_EQ(sliced.reduced, empty.reduced);
  EXPECT_EQ(sliced.announced, empty.announced);
}

TEST_P(Slices, DoNotDependOnTheNumberOfThreads) {
  const Network network = sliced_network(true);
  SlicedModel one(network, config_of(GetParam(), 1), 0), three(network, config_of(GetParam(), 1, 3), 0);
  one.train();
  three.train();
  EXPECT_EQ(one.sums, three.sums);
  for (const Parameter& p : one.parameters) {
    if (p.role != Parameter::Role::norm_shift) continue;
    for (int64_t i = p.offset; i < p.offset + p.count; ++i) EXPECT_EQ(one.gradients[i], three.gradients[i]) << p.name;
  }
}

INSTANTIATE_TEST_SUITE_P(, Slices, ::testing::Values(Precision::fp32, Precision::bf16),
                         [](const auto& tested) { return tested.param == Precision::bf16 ? "Bf16" : "F32"; });

}  // namespace
}  // namespace ddp::testing
