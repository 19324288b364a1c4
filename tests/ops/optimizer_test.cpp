#include "tests/ops/fixture.h"

#include <fmt/format.h>

namespace ddp::testing {
namespace {

using Kind = OptimizerDesc::Kind;

const OptimizerDesc kOptimizerCases[] = {
    {.kind = Kind::sgd},
    {.kind = Kind::sgd, .weight_decay = 0.1f},
    {.kind = Kind::sgd, .weight_decay = 0.1f, .decoupled = true},
    {.kind = Kind::sgd, .momentum = 0.9f, .weight_decay = 0.1f},
    {.kind = Kind::sgd, .momentum = 0.9f, .nesterov = true},
    {.kind = Kind::sgd, .momentum = 0.9f, .nesterov = true, .weight_decay = 0.1f, .decoupled = true},
    {.kind = Kind::adam, .weight_decay = 0.1f},
    {.kind = Kind::adam, .beta1 = 0.8f, .beta2 = 0.95f, .epsilon = 1e-3f, .weight_decay = 0.1f, .decoupled = true},
    {.kind = Kind::lars, .momentum = 0.9f, .weight_decay = 0.01f, .trust = 0.02f},
    {.kind = Kind::lars, .trust = 0.02f},
};

const OptimizerTensor kTensors[] = {
    {0, 1, true}, {16, 40000, true}, {40016, 17, false}, {40048, 64, false}, {40112, 333, true}};
constexpr int64_t kCount = 40448;  // includes a gap at the end

struct Stepped {
  Values weights, gradients;
  std::array<Values, 2> state;
};

Values without_gaps(Values values) {
  Values kept(values.size());
  for (const OptimizerTensor& t : kTensors) std::copy_n(values.begin() + t.offset, t.count, kept.begin() + t.offset);
  return kept;
}

Stepped start(const OptimizerDesc& desc) {
  Stepped run{without_gaps(random_values(kCount, 1)), without_gaps(random_values(kCount, 2)), {}};
  for (int k = 0; k < desc.states(); ++k) {
    run.state[k] = without_gaps(random_values(kCount, 3 + k));
    for (float& v : run.state[k]) v = std::abs(v);
  }
  return run;
}

// Three steps, in partitions that end at `edges`.
Stepped steps(Ops& ops, const OptimizerDesc& desc, std::vector<int64_t> edges = {0, kCount}) {
  Stepped run = start(desc);
  const auto optimizer = ops.optimizer(desc, kTensors);
  const float skip[] = {0, 0};
  for (int step = 1; step <= 3; ++step) {
    const float t = static_cast<float>(step);
    const OptimizerScalars scalars{.lr = 0.1f / t,
                                   .correction1 = 1 - std::pow(desc.beta1, t),
                                   .correction2 = 1 - std::pow(desc.beta2, t),
                                   .gradient_scale = 0.5f};
    for (size_t i = 0; i + 1 < edges.size(); ++i) {
      OptimizerPart part{.weights = run.weights.data(),
                         .gradients = run.gradients.data(),
                         .begin = edges[i],
                         .count = edges[i + 1] - edges[i]};
      for (int k = 0; k < desc.states(); ++k) part.state[k] = run.state[k].data() + edges[i];
      optimizer->step(part, &scalars, skip);
    }
  }
  return run;
}

class OptimizerTest : public ::testing::TestWithParam<OptimizerDesc> {
 protected:
  std::unique_ptr<Device> device = make_cpu_device();
  std::unique_ptr<Ops> ops = make_cpu_ops(*device, {});
};

TEST_P(OptimizerTest, AgreesWithTheReferenceAtAnyNumberOfThreads) {
  const Stepped expected = steps(*make_reference_ops(*device), GetParam()), actual = steps(*ops, GetParam());
  expect_close(actual.weights, expected.weights, "weights", 1e-6);
  EXPECT_NE(actual.weights, start(GetParam()).weights);
  EXPECT_EQ(actual.weights, without_gaps(actual.weights));
  for (int k = 0; k < GetParam().states(); ++k) {
    expect_close(actual.state[k], expected.state[k], "state", 1e-6);
    EXPECT_EQ(actual.state[k], without_gaps(actual.state[k]));
  }
  const Stepped threads = steps(*make_cpu_ops(*device, {.threads = 2}), GetParam());
  EXPECT_EQ(threads.weights, actual.weights);
  EXPECT_EQ(threads.state, actual.state);
}

TEST_P(OptimizerTest, PartitionedStepsEqualOneStep) {
  if (GetParam().kind == Kind::lars) return;  // needs the norms of whole tensors
  const Stepped whole = steps(*ops, GetParam());
  const Stepped parts = steps(*ops, GetParam(), {0, 16, 16384, 16400, 40032, 40096, kCount});
  EXPECT_EQ(parts.weights, whole.weights);
  EXPECT_EQ(parts.state, whole.state);
  const Stepped reference = steps(*make_reference_ops(*device), GetParam(), {0, 16384, 40032, kCount});
  expect_close(parts.weights, reference.weights, "weights", 1e-6);
}

TEST_P(OptimizerTest, DoesNothingIfAnySkipFlagIsSet) {
  Stepped run = start(GetParam());
  const OptimizerScalars scalars{.lr = 0.1f};
  OptimizerPart part{.weights = run.weights.data(), .gradients = run.gradients.data(), .begin = 0, .count = kCount};
  for (int k = 0; k < GetParam().states(); ++k) part.state[k] = run.state[k].data();
  const float skip[] = {0, 0, 1};
  ops->optimizer(GetParam(), kTensors)->step(part, &scalars, skip);
  EXPECT_EQ(run.weights, start(GetParam()).weights);
  EXPECT_EQ(run.state, start(GetParam()).state);
}

const char* name_of(Kind kind) { return kind == Kind::sgd ? "sgd" : kind == Kind::adam ? "adam" : "lars"; }

INSTANTIATE_TEST_SUITE_P(, OptimizerTest, ::testing::ValuesIn(kOptimizerCases), [](const auto& tested) {
  const OptimizerDesc& d = tested.param;
  return fmt::format("{}_{}{}{}{}{}", tested.index, name_of(d.kind), d.momentum != 0 ? "_momentum" : "",
                     d.nesterov ? "_nesterov" : "", d.weight_decay != 0 ? "_decay" : "",
                     d.decoupled ? "_decoupled" : "");
});

// One weight, worked out by hand: w = 2, g = 1, rate 0.1, decay 0.5.
float one_step(const OptimizerDesc& desc, Values state = {}, OptimizerScalars scalars = {.lr = 0.1f},
               bool decays = true) {
  const auto device = make_cpu_device();
  const OptimizerTensor tensors[] = {{0, 1, decays}};
  Values w = {2}, g = {1};
  OptimizerPart part{.weights = w.data(), .gradients = g.data(), .begin = 0, .count = 1};
  for (size_t k = 0; k < state.size(); ++k) part.state[k] = &state[k];
  make_cpu_ops(*device, {})->optimizer(desc, tensors)->step(part, &scalars, {});
  return w[0];
}

TEST(Optimizer, FollowsTheDocumentedFormulas) {
  EXPECT_FLOAT_EQ(one_step({.weight_decay = 0.5f}), 1.8f);
  EXPECT_FLOAT_EQ(one_step({.weight_decay = 0.5f}, {}, {.lr = 0.1f}, false), 1.9f);
  EXPECT_FLOAT_EQ(one_step({.weight_decay = 0.5f, .decoupled = true}), 1.8f);
  EXPECT_FLOAT_EQ(one_step({}, {}, {.lr = 0.1f, .gradient_scale = 3}), 1.7f);
  EXPECT_FLOAT_EQ(one_step({.momentum = 0.5f}, {4}), 1.7f);                     // m = 3
  EXPECT_FLOAT_EQ(one_step({.momentum = 0.5f, .nesterov = true}, {4}), 1.75f);  // 1 + 0.5 * 3
  // The first step of Adam is lr for any gradient. Weight decay is decoupled, or part of the gradient.
  const OptimizerScalars first{.lr = 0.1f, .correction1 = 1 - 0.9f, .correction2 = 1 - 0.999f};
  EXPECT_NEAR(one_step({.kind = Kind::adam}, {0, 0}, first), 1.9f, 1e-5);
  EXPECT_NEAR(one_step({.kind = Kind::adam, .weight_decay = 0.5f, .decoupled = true}, {0, 0}, first), 1.8f, 1e-5);
  EXPECT_NEAR(one_step({.kind = Kind::adam, .weight_decay = 0.5f}, {0, 0}, first), 1.9f, 1e-5);
  // local = 0.5 * 2 / (1 + 0.5 * 2) = 0.5, m = 0.5 * 4 + 0.1 * 0.5 * 2 = 2.1
  EXPECT_NEAR(one_step({.kind = Kind::lars, .momentum = 0.5f, .weight_decay = 0.5f, .trust = 0.5f}, {4}), -0.1f, 1e-6);
  EXPECT_FLOAT_EQ(one_step({.kind = Kind::lars, .weight_decay = 0.5f, .trust = 0.5f}, {0}, {.lr = 0.1f}, false), 1.9f);
}

}  // namespace
}  // namespace ddp::testing
