// The optimizer with ranks as threads, on the reference ops: ranks with sharded state compute the weights that one rank
// with the whole state computes.
#include "train/step/optimizer.h"

#include "core/error.h"
#include "device/cpu/device.h"
#include "tests/comm/ranks.h"
#include "tests/ops/reference/ops.h"

#include <gtest/gtest.h>

#include <cmath>
#include <mutex>

namespace ddp {
namespace {

constexpr int kSteps = 5;
const int64_t kSizes[] = {70, 1, 700, 33, 0, 129, 40, 3};

struct Layout {
  static constexpr int64_t kTail = 5;

  // The tensors have a rate, a decay and a momentum of their own.
  explicit Layout(int world, bool sharded, const OptimizerDesc& desc = {}) {
    const int64_t unit = sharded ? partition_alignment(world) : 16;
    std::vector<int64_t> counts;
    int64_t offset = 0;
    for (const int64_t size : kSizes) {
      counts.push_back((size + unit - 1) / unit * unit);
      tensors.push_back({.offset = offset,
                         .count = size,
                         .rate = size % 3 == 0 ? 0.5f : 1,
                         .decay = size % 2 == 0 ? desc.weight_decay : 0,
                         .momentum = size % 5 == 0 ? desc.momentum / 2 : desc.momentum});
      offset += counts.back();
    }
    plan = plan_buckets(counts, world, kTail, {.cap_mb = 0.001});
  }

  // spread copies dense values into the flat layout; gather copies them back.
  std::vector<float> spread(const std::vector<float>& dense) const {
    std::vector<float> flat(plan.padded);
    auto from = dense.begin();
    for (const OptimizerTensor& t : tensors) {
      std::copy_n(from, t.count, flat.begin() + t.offset);
      from += t.count;
    }
    return flat;
  }
  std::vector<float> gather(const std::vector<float>& flat) const {
    std::vector<float> dense;
    for (const OptimizerTensor& t : tensors)
      dense.insert(dense.end(), flat.begin() + t.offset, flat.begin() + t.offset + t.count);
    return dense;
  }

  std::vector<OptimizerTensor> tensors;
  BucketPlan plan;
};

std::vector<float> some_values(int seed) {
  std::vector<float> values;
  for (const int64_t size : kSizes)
    for (int64_t i = 0; i < size; ++i)
      values.push_back(std::sin(static_cast<float>(values.size() * 7 + static_cast<size_t>(seed) * 131)));
  return values;
}

struct Outcome {
  std::vector<float> weights;  // dense layout
  std::vector<std::vector<float>> states;
};

// Runs kSteps steps on one rank. The gradients are as after a Reducer: NaN outside this rank's partition.
Outcome run_steps(const OptimizerConfig& config, Communicator& communicator, const std::vector<float>& skip = {0},
                  bool reload = false) {
  const Layout layout(communicator.size(), config.sharded, config.optimizer);
  const auto device = make_cpu_device();
  const auto ops = make_reference_ops(*device);
  std::vector<float> weights = layout.spread(some_values(0)), gradients(layout.plan.padded);
  float squares = NAN;
  const FlatBuffers flat{layout.plan, weights.data(), gradients.data(), &squares};
  const auto make = [&] {
    return std::make_unique<Optimizer>(config, layout.tensors, flat, *device, *ops, communicator);
  };
  auto optimizer = make();
  const auto downloaded = [&](int k) {
    std::vector<float> state(layout.plan.gradients);
    optimizer->download_state(k, state.data());
    return state;
  };
  OptimizerScalars scalars;
  for (int step = 1; step <= kSteps; ++step) {
    const std::vector<float> summed = layout.spread(some_values(step));
    std::copy(summed.begin(), summed.end(), gradients.begin());
    if (config.sharded) {
      std::fill(gradients.begin(), gradients.end(), NAN);
      for (const Partition& part : partitions_of(layout.plan, communicator.rank(), communicator.size()))
        std::copy_n(summed.begin() + part.begin, part.count, gradients.begin() + part.begin);
    }
    scalars = optimizer->scalars_for(0.1 / step, step);
    const auto before = communicator.completed();
    optimizer->step(&scalars, skip);
    if (communicator.size() == 1) {  // others run ahead of the comparison
      EXPECT_EQ(static_cast<int>(communicator.completed() - before), optimizer->collectives());
    }
    if (!reload) continue;
    auto next = make();
    for (int k = 0; k < optimizer->states(); ++k) next->load_state(k, downloaded(k));
    optimizer = std::move(next);
  }
  Outcome outcome{.weights = layout.gather(weights), .states = {}};
  for (int k = 0; k < optimizer->states(); ++k) outcome.states.push_back(layout.gather(downloaded(k)));
  return outcome;
}

Outcome alone(OptimizerConfig config, const std::vector<float>& skip = {0}) {
  config.sharded = false;
  Outcome outcome;
  run_ranks(1, [&](Communicator& one) { outcome = run_steps(config, one, skip); });
  return outcome;
}

void expect_near(const std::vector<float>& actual, const std::vector<float>& expected, float tolerance) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i)
    ASSERT_NEAR(actual[i], expected[i], tolerance * std::max(1.0f, std::abs(expected[i]))) << i;
}

void expect_near(const Outcome& actual, const Outcome& expected, float tolerance) {
  expect_near(actual.weights, expected.weights, tolerance);
  ASSERT_EQ(actual.states.size(), expected.states.size());
  for (size_t k = 0; k < actual.states.size(); ++k) expect_near(actual.states[k], expected.states[k], tolerance);
}

constexpr OptimizerDesc kPlain{}, kMomentum{.momentum = 0.9f, .nesterov = true, .weight_decay = 1e-2f},
    kAdam{.kind = OptimizerDesc::Kind::adam, .weight_decay = 1e-2f},
    kAdamW{.kind = OptimizerDesc::Kind::adam, .weight_decay = 1e-2f, .decoupled = true},
    kLars{.kind = OptimizerDesc::Kind::lars, .momentum = 0.9f, .weight_decay = 1e-2f};

class Optimizers : public ::testing::TestWithParam<std::tuple<int, OptimizerDesc, double>> {
 protected:
  OptimizerConfig config() const {
    return {.optimizer = std::get<1>(GetParam()), .max_grad_norm = std::get<2>(GetParam()), .sharded = true};
  }
};
INSTANTIATE_TEST_SUITE_P(, Optimizers,
                         ::testing::Combine(::testing::Values(1, 2, 3, 4),
                                            ::testing::Values(kPlain, kMomentum, kAdam, kAdamW),
                                            ::testing::Values(0.0, 3.0)));

TEST_P(Optimizers, PartitionedUpdateEqualsTheWhole) {
  const Outcome whole = alone(config());
  run_ranks(std::get<0>(GetParam()), [&](Communicator& rank) { expect_near(run_steps(config(), rank), whole, 1e-6f); });
}

TEST_P(Optimizers, ResumeFromSavedState) {
  const Outcome whole = alone(config());
  run_ranks(std::get<0>(GetParam()),
            [&](Communicator& rank) { expect_near(run_steps(config(), rank, {0}, true), whole, 1e-6f); });
}

TEST_P(Optimizers, BadStepChangesNothing) {
  run_ranks(std::get<0>(GetParam()), [&](Communicator& rank) {
    const Outcome outcome = run_steps(config(), rank, {0, 3, 0});
    EXPECT_EQ(outcome.weights, some_values(0));
    for (const auto& state : outcome.states) EXPECT_EQ(state, std::vector<float>(state.size()));
  });
}

TEST(Optimizer, MovesTheWeights) {
  for (const OptimizerDesc& optimizer : {kPlain, kMomentum, kAdam, kAdamW, kLars})
    EXPECT_NE(alone({.optimizer = optimizer}).weights, some_values(0));
}

TEST(Optimizer, ClipsTheNormOfAllGradients) {
  double squares = 0;
  for (const float g : some_values(1)) squares += double{g} * g;
  const auto device = make_cpu_device();
  const auto ops = make_reference_ops(*device);
  for (const double limit : {0.0, 0.5, 1e6})
    run_ranks(2, [&](Communicator& rank) {
      const Layout layout(2, false);
      std::vector<float> weights(layout.plan.padded), gradients = layout.spread(some_values(1));
      float sum = NAN;
      Optimizer optimizer({.max_grad_norm = limit}, layout.tensors,
                          {layout.plan, weights.data(), gradients.data(), &sum}, *device, *ops, rank);
      OptimizerScalars scalars = optimizer.scalars_for(1, 1);
      const std::vector<float> skip(2);
      optimizer.step(&scalars, skip);
      EXPECT_NEAR(sum, squares, 1e-6 * squares);
      EXPECT_NEAR(scalars.gradient_scale, limit == 0.5 ? 0.5 / std::sqrt(squares) : 1.0, 1e-6);
      EXPECT_NEAR(weights[0], -gradients[0] * scalars.gradient_scale, 1e-7);
    });
}

TEST(Optimizer, HoldsStateOfItsPartitionOnly) {
  std::mutex mutex;
  size_t all = 0;
  run_ranks(4, [&](Communicator& rank) {
    const Layout layout(4, true);
    const auto device = make_cpu_device();
    const auto ops = make_reference_ops(*device);
    const Optimizer part({.optimizer = kAdam, .sharded = true}, layout.tensors, {layout.plan}, *device, *ops, rank),
        whole({.optimizer = kAdam}, layout.tensors, {layout.plan}, *device, *ops, rank);
    EXPECT_EQ(whole.state_bytes(), 2 * sizeof(float) * static_cast<size_t>(layout.plan.gradients));
    EXPECT_EQ(part.state_bytes() * 4, 2 * sizeof(float) * static_cast<size_t>(layout.plan.padded));
    EXPECT_EQ(part.collectives(), std::ssize(layout.plan.buckets));
    EXPECT_EQ(whole.collectives(), 0);
    EXPECT_EQ(part.state_name(1), "exp_avg_sq");
    const std::lock_guard lock(mutex);
    all += part.state_bytes();
  });
  EXPECT_EQ(all, 2 * sizeof(float) * static_cast<size_t>(Layout(4, true).plan.padded));
}

TEST(Optimizer, LarsIsNotSharded) {
  run_ranks(1, [](Communicator& rank) {
    const Layout layout(1, true);
    const auto device = make_cpu_device();
    const auto ops = make_reference_ops(*device);
    EXPECT_THROW(Optimizer({.optimizer = kLars, .sharded = true}, layout.tensors, {layout.plan}, *device, *ops, rank),
                 Error);
  });
}

TEST(Optimizer, ComputesAdamScalars) {
  run_ranks(1, [](Communicator& rank) {
    const Layout layout(1, false);
    const auto device = make_cpu_device();
    const auto ops = make_reference_ops(*device);
    const OptimizerScalars scalars =
        Optimizer({.optimizer = kAdam}, layout.tensors, {layout.plan}, *device, *ops, rank).scalars_for(0.5, 3);
    EXPECT_EQ(scalars.lr, 0.5f);
    EXPECT_NEAR(scalars.correction1, 1 - 0.9 * 0.9 * 0.9, 1e-6);
    EXPECT_NEAR(scalars.correction2, 1 - std::pow(0.999, 3), 1e-7);
    EXPECT_EQ(scalars.gradient_scale, 1);
  });
}

}  // namespace
}  // namespace ddp
