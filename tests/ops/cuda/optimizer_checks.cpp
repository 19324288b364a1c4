#include "tests/ops/cuda/checks.h"

#include <fmt/format.h>

#include <array>
#include <limits>
#include <span>
#include <string>
#include <vector>

namespace ddp::testing {
namespace {

using Kind = OptimizerDesc::Kind;

// Odd sizes, gaps, and one tensor of many blocks.
const OptimizerTensor kTensors[] = {{0, 5, true},        {16, 16, false},     {32, 33, true},  {96, 2000, true},
                                    {2096, 1024, false}, {3120, 70001, true}, {73136, 1, true}};
constexpr int64_t kTotal = 73137;

// Zero outside the tensors.
Values flat(uint64_t seed) {
  const Values random = random_values(kTotal, seed);
  Values values(kTotal);
  for (const OptimizerTensor& t : kTensors)
    for (int64_t i = t.offset; i < t.offset + t.count; ++i) values[i] = random[i];
  return values;
}

const OptimizerScalars kScalars[] = {{0.1f, 0.1f, 0.001f, 0.5f}, {0.05f, 0.19f, 0.002f, 1}};

// Two steps on the reference, and on the device in partitions that end at `cuts`.
void check(const Tested& t, const OptimizerDesc& desc, std::span<const int64_t> cuts, const std::string& name) {
  SCOPED_TRACE(name);
  const auto optimizer = t.ops.optimizer(desc, kTensors), reference = t.reference.optimizer(desc, kTensors);
  Values w = flat(1);
  std::vector<Values> state(desc.states(), Values(kTotal));
  const OnDevice<float> aw(t.device, w), clear(t.device, Values(3)), set(t.device, {0, 0, 1});
  std::vector<OnDevice<float>> parts;  // optimizer state of each partition
  for (size_t p = 0; p + 1 < cuts.size(); ++p)
    for (int s = 0; s < desc.states(); ++s) parts.emplace_back(t.device, Values(cuts[p + 1] - cuts[p]));

  for (const auto& [step, scalars] : {std::pair{0, kScalars[0]}, {1, kScalars[1]}}) {
    const Values g = flat(2 + step);
    const OnDevice<float> ag(t.device, g);
    const OnDevice<OptimizerScalars> on_device(t.device, {scalars});
    const auto run = [&](const OnDevice<float>& skip) {
      for (size_t p = 0; p + 1 < cuts.size(); ++p) {
        OptimizerPart part{aw.data(), ag.data(), cuts[p], cuts[p + 1] - cuts[p], {}};
        for (int s = 0; s < desc.states(); ++s) part.state[s] = parts[p * desc.states() + s].data();
        optimizer->step(part, on_device.data(), {skip.data(), 3});
      }
    };
    run(set);
    expect_close(aw.values(), w, "weights of a step that is skipped", 1e-6);
    run(clear);
    OptimizerPart whole{w.data(), g.data(), 0, kTotal, {}};
    for (int s = 0; s < desc.states(); ++s) whole.state[s] = state[s].data();
    reference->step(whole, &scalars, {});
    expect_close(aw.values(), w, "weights", 1e-6);
    for (int s = 0; s < desc.states(); ++s) {
      Values joined;
      for (size_t p = 0; p + 1 < cuts.size(); ++p) {
        const Values part = parts[p * desc.states() + s].values();
        joined.insert(joined.end(), part.begin(), part.end());
      }
      expect_close(joined, state[s], "state", 1e-6);
    }
  }
  const Values after = aw.values(), mask = flat(1);
  for (int64_t i = 0; i < kTotal; ++i) ASSERT_TRUE(mask[i] != 0 || after[i] == 0) << "in a gap, at " << i;
}

const std::pair<const char*, OptimizerDesc> kDescs[] = {
    {"sgd", {.kind = Kind::sgd}},
    {"sgd, decay", {.kind = Kind::sgd, .weight_decay = 0.1f}},
    {"sgd, decoupled", {.kind = Kind::sgd, .weight_decay = 0.1f, .decoupled = true}},
    {"sgd, momentum", {.kind = Kind::sgd, .momentum = 0.9f, .weight_decay = 0.1f}},
    {"sgd, nesterov", {.kind = Kind::sgd, .momentum = 0.9f, .nesterov = true, .weight_decay = 0.1f, .decoupled = true}},
    {"adam", {.kind = Kind::adam, .weight_decay = 0.1f}},
    {"adamw", {.kind = Kind::adam, .weight_decay = 0.1f, .decoupled = true}},
};

}  // namespace

void check_optimizers(const Tested& t) {
  for (const auto& [name, desc] : kDescs) check(t, desc, std::array{int64_t{0}, kTotal}, name);
}

// Partition edges lie inside tensors, inside gaps and between tensors; one partition is empty.
void check_optimizer_parts(const Tested& t) {
  const int64_t cuts[] = {0, 16, 80, 80, 1104, 16400, kTotal};
  for (const auto& [name, desc] : kDescs) check(t, desc, cuts, name);
}

void check_lars(const Tested& t) {
  const OptimizerDesc desc{.kind = Kind::lars, .momentum = 0.9f, .weight_decay = 0.01f, .trust = 0.02f};
  check(t, desc, std::array{int64_t{0}, kTotal}, "lars");

  // A tensor whose weights or gradients are all zero has a local rate of 1.
  const OptimizerTensor tensors[] = {{0, 16, true}, {16, 16, true}};
  Values weights(32), gradients(32);
  for (int i = 0; i < 16; ++i) gradients[i] = weights[16 + i] = 1;
  const OnDevice<float> w(t.device, weights), g(t.device, gradients), m(t.device, Values(32));
  const OnDevice<OptimizerScalars> scalars(t.device, {{.lr = 0.5f}});
  t.ops.optimizer({.kind = Kind::lars}, tensors)->step({w.data(), g.data(), 0, 32, {m.data()}}, scalars.data(), {});
  for (int i = 0; i < 16; ++i) weights[i] = -0.5f;
  EXPECT_EQ(w.values(), weights);
}

}  // namespace ddp::testing
