#include "tests/ops/backend.h"

#include <array>
#include <optional>

namespace ddp::testing {
namespace {

using OptimizerKind = OptimizerDesc::Kind;

struct OptimizerCase {
  const char* name;
  OptimizerDesc desc;
  bool mixed = false;  // tensors have values of their own
  On on = On::every;
};

const OptimizerCase kOptimizerCases[] = {
    {"sgd", {.kind = OptimizerKind::sgd}},
    {"sgd_decay", {.kind = OptimizerKind::sgd, .weight_decay = 0.1f}},
    {"sgd_decoupled", {.kind = OptimizerKind::sgd, .weight_decay = 0.1f, .decoupled = true}},
    {"sgd_momentum", {.kind = OptimizerKind::sgd, .momentum = 0.9f, .weight_decay = 0.1f}},
    {"sgd_nesterov", {.kind = OptimizerKind::sgd, .momentum = 0.9f, .nesterov = true}},
    {"sgd_nesterov_decoupled",
     {.kind = OptimizerKind::sgd, .momentum = 0.9f, .nesterov = true, .weight_decay = 0.1f, .decoupled = true}},
    {"adam", {.kind = OptimizerKind::adam, .weight_decay = 0.1f}},
    {"adamw",
     {.kind = OptimizerKind::adam,
      .beta1 = 0.8f,
      .beta2 = 0.95f,
      .epsilon = 1e-3f,
      .weight_decay = 0.1f,
      .decoupled = true}},
    {"lars", {.kind = OptimizerKind::lars, .momentum = 0.9f, .weight_decay = 0.01f, .trust = 0.02f}},
    {"lars_plain", {.kind = OptimizerKind::lars, .trust = 0.02f}},
    {"sgd_mixed", {.weight_decay = 0.1f, .decoupled = true}, true},
    {"sgd_momentum_mixed", {.group_momentum = true}, true},
    {"sgd_nesterov_mixed", {.momentum = 0.9f, .nesterov = true, .weight_decay = 0.1f}, true},
    {"adam_mixed", {.kind = OptimizerKind::adam, .weight_decay = 0.1f}, true},
    {"adamw_mixed", {.kind = OptimizerKind::adam, .weight_decay = 0.1f, .decoupled = true}, true},
    {"lars_mixed", {.kind = OptimizerKind::lars, .momentum = 0.9f, .weight_decay = 0.01f, .trust = 0.02f}, true},
};

std::string name_of(const OptimizerCase& c) { return c.name; }

// Odd sizes, gaps, and one tensor of many blocks.
struct Place {
  int64_t offset, count;
  bool decays;
};
const Place kPlaces[] = {{0, 5, true},        {16, 16, false},     {32, 33, true},     {96, 2000, true},
                         {2096, 1024, false}, {3120, 70001, true}, {73136, 17, false}, {73168, 64, false},
                         {73232, 333, true},  {73568, 1, true}};
constexpr int64_t kEnd = 73569, kCount = 73600;  // kCount includes a gap at the end
// Inside tensors, inside gaps and between tensors; one part is empty.
const std::vector<int64_t> kEdges = {0, 16, 80, 80, 1104, 16384, 16400, 73152, 73216, kEnd};

std::vector<OptimizerTensor> tensors_of(const OptimizerCase& c) {
  std::vector<OptimizerTensor> tensors;
  for (const Place& place : kPlaces) {
    OptimizerTensor& t = tensors.emplace_back(OptimizerTensor{.offset = place.offset,
                                                              .count = place.count,
                                                              .decay = place.decays ? c.desc.weight_decay : 0.0f,
                                                              .momentum = c.desc.momentum,
                                                              .adapts = place.decays});
    if (!c.mixed) continue;
    const size_t i = tensors.size();
    t.rate = std::array{1.0f, 0.25f, 0.0f}[i % 3];
    t.decay = std::array{0.1f, 0.0f, 0.3f, 0.02f}[i % 4];
    if (c.desc.states() == 1) t.momentum = std::array{0.9f, 0.0f, 0.5f, 0.8f, 1.0f}[i % 5];
  }
  return tensors;
}

struct Stepped {
  Values weights;
  std::array<Values, 2> state;
  friend bool operator==(const Stepped&, const Stepped&) = default;
};

Values without_gaps(const Values& values) {
  Values kept(values.size());
  for (const Place& t : kPlaces) std::copy_n(values.begin() + t.offset, t.count, kept.begin() + t.offset);
  return kept;
}

class Optimizer : public CaseTest<OptimizerCase> {
 protected:
  const OptimizerDesc& desc = c.desc;
  const Stepped start = [&] {
    Stepped run{without_gaps(random_values(kCount, 1)), {}};
    for (int k = 0; k < desc.states(); ++k) {
      run.state[k] = without_gaps(random_values(kCount, 3 + k));
      for (float& v : run.state[k]) v = std::abs(v);
    }
    return run;
  }();

  const std::vector<Values> gradients = {without_gaps(random_values(kCount, 11)),
                                         without_gaps(random_values(kCount, 12)),
                                         without_gaps(random_values(kCount, 13))};

  // Steps in parts that end at `edges`. Each part has its own memory for the optimizer state.
  Stepped steps(Ops& tested, Device& on, const std::vector<int64_t>& edges, int count = 3,
                const Values& skip = {0, 0, 0}) const {
    const auto optimizer = tested.optimizer(desc, tensors_of(c));
    const OnDevice<float> weights(on, start.weights), on_skip(on, skip);
    const OnDevice<uint16_t> rounded(on, bf16_of(start.weights));
    std::vector<OnDevice<float>> states;
    for (size_t i = 0; i + 1 < edges.size(); ++i)
      for (int k = 0; k < desc.states(); ++k)
        states.emplace_back(on, Values(start.state[k].begin() + edges[i], start.state[k].begin() + edges[i + 1]));
    for (int step = 1; step <= count; ++step) {
      const float t = static_cast<float>(step);
      const OnDevice<float> on_gradients(on, gradients[step - 1]);
      const OnDevice<OptimizerScalars> scalars(on, {{.lr = 0.1f / t,
                                                     .correction1 = 1 - std::pow(desc.beta1, t),
                                                     .correction2 = 1 - std::pow(desc.beta2, t),
                                                     .gradient_scale = 0.5f}});
      for (size_t i = 0; i + 1 < edges.size(); ++i) {
        OptimizerPart part{weights.data(), on_gradients.data(), edges[i], edges[i + 1] - edges[i], {}};
        if (!on.is_host()) part.bf16_weights = rounded.data();
        for (int k = 0; k < desc.states(); ++k) part.state[k] = states[i * desc.states() + k].data();
        optimizer->step(part, scalars.data(), {on_skip.data(), skip.size()});
      }
      on.synchronize();  // before the memory of this step is freed
    }
    Stepped after{weights.values(), start.state};
    if (!on.is_host()) {
      EXPECT_EQ(rounded.values(), bf16_of(after.weights));
    }
    for (size_t i = 0; i + 1 < edges.size(); ++i)
      for (int k = 0; k < desc.states(); ++k)
        std::ranges::copy(states[i * desc.states() + k].values(), after.state[k].begin() + edges[i]);
    return after;
  }

  void expect_agreement(const Stepped& actual, const Stepped& expected) const {
    expect_close(actual.weights, expected.weights, "weights", 1e-6);
    EXPECT_NE(actual.weights, start.weights);
    EXPECT_EQ(actual.weights, without_gaps(actual.weights));
    for (int k = 0; k < desc.states(); ++k) {
      expect_close(actual.state[k], expected.state[k], "state", 1e-6);
      EXPECT_EQ(actual.state[k], without_gaps(actual.state[k]));
    }
  }
};
INSTANTIATE_TEST_SUITE_P(, Optimizer, on_each_backend(kOptimizerCases, runs_spans), kCaseName);

TEST_P(Optimizer, AgreesWithTheReferenceAtAnyNumberOfThreads) {
  const Stepped expected = steps(*reference, *host, {0, kCount});
  std::optional<Stepped> first;
  each_setup({Format{}}, {0}, [&] {
    const Stepped actual = steps(*ops, *device, {0, kCount});
    expect_agreement(actual, expected);
    if (!first) first = actual;
    EXPECT_EQ(actual, *first);
  });
}

TEST_P(Optimizer, PartsAgreeWithTheReference) {
  if (desc.kind == OptimizerKind::lars) return;  // needs the norms of whole tensors
  const Stepped parts = steps(*ops, *device, kEdges);
  expect_agreement(parts, steps(*reference, *host, kEdges));
  if (!backend.cuda()) {
    EXPECT_EQ(parts, steps(*ops, *device, {0, kCount}));
  }
}

TEST_P(Optimizer, DoesNothingIfAnySkipFlagIsSet) {
  const std::vector<int64_t> whole = {0, kCount};
  EXPECT_EQ(steps(*ops, *device, desc.kind == OptimizerKind::lars ? whole : kEdges, 1, {0, 0, 1}), start);
}

class OptimizerStep : public BackendTest {
 protected:
  // One weight, worked out by hand: w = 2, g = 1, rate 0.1, decay 0.5.
  float one_step(const OptimizerDesc& desc, const Values& state = {}, OptimizerScalars scalars = {.lr = 0.1f},
                 bool decays = true, float rate = 1) const {
    const OptimizerTensor tensors[] = {
        {0, 1, rate, decays ? desc.weight_decay : 0.0f, desc.momentum, /*adapts=*/decays}};
    const auto w = on_device(Values{2}), g = on_device(Values{1});
    const auto on_scalars = on_device(std::vector{scalars});
    std::vector<OnDevice<float>> states;
    for (const float v : state) states.push_back(on_device(Values{v}));
    OptimizerPart part{w.data(), g.data(), 0, 1, {}};
    for (size_t k = 0; k < states.size(); ++k) part.state[k] = states[k].data();
    ops->optimizer(desc, tensors)->step(part, on_scalars.data(), {});
    return w.values()[0];
  }
};
INSTANTIATE_TEST_SUITE_P(, OptimizerStep, ::testing::ValuesIn(backends_where(is_compared, runs_spans)), kBackendName);

TEST_P(OptimizerStep, FollowsTheDocumentedFormulas) {
  EXPECT_FLOAT_EQ(one_step({.weight_decay = 0.5f}), 1.8f);
  EXPECT_FLOAT_EQ(one_step({.weight_decay = 0.5f}, {}, {.lr = 0.1f}, false), 1.9f);
  EXPECT_FLOAT_EQ(one_step({.weight_decay = 0.5f, .decoupled = true}), 1.8f);
  EXPECT_FLOAT_EQ(one_step({}, {}, {.lr = 0.1f, .gradient_scale = 3}), 1.7f);
  EXPECT_FLOAT_EQ(one_step({.weight_decay = 0.5f, .decoupled = true}, {}, {.lr = 0.1f}, true, 0.5f), 1.9f);
  EXPECT_FLOAT_EQ(one_step({.momentum = 0.5f}, {4}), 1.7f);                     // m = 3
  EXPECT_FLOAT_EQ(one_step({.momentum = 0.5f, .nesterov = true}, {4}), 1.75f);  // 1 + 0.5 * 3
  // The first step of Adam is lr for any gradient. Weight decay is decoupled, or part of the gradient.
  const OptimizerScalars first{.lr = 0.1f, .correction1 = 1 - 0.9f, .correction2 = 1 - 0.999f};
  constexpr OptimizerKind kAdam = OptimizerKind::adam, kLars = OptimizerKind::lars;
  EXPECT_NEAR(one_step({.kind = kAdam}, {0, 0}, first), 1.9f, 1e-5);
  EXPECT_NEAR(one_step({.kind = kAdam, .weight_decay = 0.5f, .decoupled = true}, {0, 0}, first), 1.8f, 1e-5);
  EXPECT_NEAR(one_step({.kind = kAdam, .weight_decay = 0.5f}, {0, 0}, first), 1.9f, 1e-5);
  // local = 0.5 * 2 / (1 + 0.5 * 2) = 0.5, m = 0.5 * 4 + 0.1 * 0.5 * 2 = 2.1
  EXPECT_NEAR(one_step({.kind = kLars, .momentum = 0.5f, .weight_decay = 0.5f, .trust = 0.5f}, {4}), -0.1f, 1e-6);
  EXPECT_FLOAT_EQ(one_step({.kind = kLars, .weight_decay = 0.5f, .trust = 0.5f}, {0}, {.lr = 0.1f}, false), 1.9f);
}

TEST_P(OptimizerStep, LarsHasALocalRateOfOneForATensorOfZeros) {
  const OptimizerTensor tensors[] = {{0, 16}, {16, 16}};
  Values weights(32), gradients(32);
  for (int i = 0; i < 16; ++i) gradients[i] = weights[16 + i] = 1;
  const auto w = on_device(weights), g = on_device(gradients), m = on_device(Values(32));
  const auto scalars = on_device(std::vector<OptimizerScalars>{{.lr = 0.5f}});
  ops->optimizer({.kind = OptimizerKind::lars}, tensors)
      ->step({w.data(), g.data(), 0, 32, {m.data()}}, scalars.data(), {});
  for (int i = 0; i < 16; ++i) weights[i] = -0.5f;
  EXPECT_EQ(w.values(), weights);
}

// The chunk size of a CUDA kernel grows with the model, so the number of chunks stays small.
TEST_P(OptimizerStep, UpdatesMoreElementsThanAGridHasThreads) {
  const int64_t count = 2'200'001;
  const OptimizerTensor tensors[] = {{0, count}};
  const auto w = on_device(Values(count, 1)), g = on_device(Values(count, 2));
  const auto scalars = on_device(std::vector<OptimizerScalars>{{.lr = -1}});
  ops->optimizer({}, tensors)->step({w.data(), g.data(), 0, count, {}}, scalars.data(), {});
  EXPECT_EQ(w.values(), Values(count, 3));
}

}  // namespace
}  // namespace ddp::testing
