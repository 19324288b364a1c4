// The instruction sets of the CPU's kernels: their choice, and what they have in common. The contract suite compares
// each set with the reference (backend_cpu.cpp).
#include "ops/cpu/instruction_set.h"

#include "core/error.h"
#include "device/cpu/device.h"
#include "ops/cpu/ops.h"
#include "tests/values.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <memory>

namespace ddp::testing {
namespace {

class InstructionSetTest : public ::testing::TestWithParam<InstructionSet> {
 protected:
  void SetUp() override {
    if (GetParam() > best_instruction_set()) GTEST_SKIP() << "this processor has no " << name_of(GetParam());
    ops = make_cpu_ops(*device, {.threads = 2, .instruction_set = GetParam()});
  }

  std::unique_ptr<Device> device = make_cpu_device();
  std::unique_ptr<Ops> ops;
};

INSTANTIATE_TEST_SUITE_P(, InstructionSetTest,
                         ::testing::Values(InstructionSet::base, InstructionSet::v3, InstructionSet::v4),
                         [](const auto& tested) { return std::string(name_of(tested.param)); });

// The weights and the state after three steps.
std::array<Values, 3> trained(Ops& ops, const OptimizerDesc& desc) {
  constexpr int64_t kValues = 40013;
  const OptimizerTensor tensors[] = {{0, 40000, 1, desc.weight_decay, desc.momentum},
                                     {40000, 13, 0.5f, 0, desc.momentum / 2, false}};
  std::array<Values, 3> of = {random_values(kValues, 1), Values(kValues), Values(kValues)};
  const auto optimizer = ops.optimizer(desc, tensors);
  for (uint64_t step = 1; step <= 3; ++step) {
    const Values gradients = random_values(kValues, 1 + step);
    const float t = static_cast<float>(step), skip = 0;
    const OptimizerScalars scalars{.lr = 0.1f,
                                   .correction1 = 1 - std::pow(desc.beta1, t),
                                   .correction2 = 1 - std::pow(desc.beta2, t),
                                   .gradient_scale = 0.5f};
    optimizer->step({of[0].data(), gradients.data(), 0, kValues, {of[1].data(), of[2].data()}}, &scalars, {&skip, 1});
  }
  return of;
}

TEST_P(InstructionSetTest, OptimizersGiveTheSameBitsAsTheBaseSet) {
  using enum OptimizerDesc::Kind;
  const OptimizerDesc descs[] = {{.kind = sgd, .weight_decay = 0.1f},
                                 {.kind = sgd, .momentum = 0.9f, .nesterov = true, .weight_decay = 0.1f},
                                 {.kind = adam, .weight_decay = 0.1f},
                                 {.kind = adam, .weight_decay = 0.1f, .decoupled = true},
                                 {.kind = lars, .momentum = 0.9f, .weight_decay = 0.1f}};
  const auto base = make_cpu_ops(*device, {.instruction_set = InstructionSet::base});
  for (const OptimizerDesc& desc : descs) {
    SCOPED_TRACE(fmt::format("kind {}, momentum {}", static_cast<int>(desc.kind), desc.momentum));
    EXPECT_EQ(trained(*ops, desc), trained(*base, desc));
  }
}

// Each rank clips for itself.
TEST_P(InstructionSetTest, SumsOfSquaresHaveTheSameBitsAsThoseOfTheBaseSet) {
  const auto base = make_cpu_ops(*device, {.instruction_set = InstructionSet::base});
  for (int64_t count = 1; count < 50000; count = 2 * count + 61) {
    const Values values = random_values(count, count);
    float sum = 0, expected = 0;
    ops->sum_of_squares(values.data(), count, &sum, Gradient::overwrite);
    base->sum_of_squares(values.data(), count, &expected, Gradient::overwrite);
    EXPECT_EQ(sum, expected) << count;
  }
}

// The widest format of a set, for many samples.
TEST_P(InstructionSetTest, SelectsTheKernels) {
  const Conv2dDesc lenet{.input = {28, 28, 1}, .input_format = {}, .out_channels = 20, .window = {3}};
  const int64_t sizes[] = {128};
  EXPECT_EQ(ops->input_format(&lenet, sizes), Format::batch_interleaved(GetParam() == InstructionSet::v4 ? 16 : 8));
}

TEST(InstructionSetOfProcessor, RefusesALargerSet) {
  EXPECT_NO_THROW(require_instruction_set(InstructionSet::v3, InstructionSet::v3));
  try {
    require_instruction_set(InstructionSet::v4, InstructionSet::v3);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Exit::device);
    EXPECT_STREQ(error.what(), "--cpu-isa v4: this processor has v3 at most; use --cpu-isa v3 or auto");
  }
}

}  // namespace
}  // namespace ddp::testing
