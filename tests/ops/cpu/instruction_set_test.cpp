// Each compiled set of kernels gives the reference's results. oneDNN is not under test here: it has its own limit.
#include "ops/cpu/instruction_set.h"

#include "core/error.h"
#include "tests/ops/expected.h"

#include <fmt/format.h>

#include <array>

namespace ddp::testing {
namespace {

class InstructionSetTest : public ::testing::TestWithParam<InstructionSet> {
 protected:
  void SetUp() override {
    if (GetParam() > best_instruction_set()) GTEST_SKIP() << "this processor has no " << name_of(GetParam());
    ops = make_cpu_ops(*device, config());
  }
  CpuOpsConfig config(DType dtype = DType::f32) const {
    CpuOpsConfig config = config_of(dtype, 2);
    config.instruction_set = GetParam();
    return config;
  }

  std::unique_ptr<Device> device = make_cpu_device();
  std::unique_ptr<Ops> reference = make_reference_ops(*device), ops;
};

INSTANTIATE_TEST_SUITE_P(, InstructionSetTest,
                         ::testing::Values(InstructionSet::base, InstructionSet::v3, InstructionSet::v4),
                         [](const auto& tested) { return std::string(name_of(tested.param)); });

// For convolutions and linear layers, from x of format `from`.
template <class Op>
void expect_agreement(Device& device, Op& op, const Expected& e, Format from, DType dtype) {
  const Format to = op.output_format();
  Owned x(device, e.in, from, e.x, dtype), y(e.out, to, dtype), dy(device, e.out, to, e.dy, dtype),
      dx(e.in, from, dtype);
  Values dw(e.w.size(), NAN), db(e.b.size(), NAN);
  op.bind(e.w.data(), e.b.data());
  op.forward(x.tensor(), y.tensor());
  expect_close(y.dense(device), e.y, dtype, "y");
  Owned given(device, e.out, to, e.y, dtype);  // rounding decides the sign of a y near 0
  op.backward_weight(x.tensor(), given.tensor(), dy.tensor(), dw.data(), db.data(), Gradient::overwrite);
  op.backward_input(dy.tensor(), dx.tensor());
  expect_close(dw, e.dw, "dweight");
  expect_close(db, e.db, "dbias");
  expect_close(dx.dense(device), e.dx, dtype, "dx");
}

TEST_P(InstructionSetTest, Conv2d) {
  const Conv2dDesc descs[] = {
      {.input = {28, 28, 1}, .input_format = {}, .out_channels = 20, .window = {3}, .relu = true},
      {.input = {9, 7, 3}, .input_format = {}, .out_channels = 11, .window = {5, 2, 1}},
      {.input = {5, 6, 20}, .input_format = {}, .out_channels = 5, .window = {1}}};
  for (Conv2dDesc desc : descs)
    for (const int64_t n : {1, 17, 32}) {
      const Expected e(*device, *reference->conv2d(desc, {}), {n, desc.input}, {n, conv2d_output(desc)},
                       random_values(desc.out_channels * desc.window.kernel * desc.window.kernel * desc.input.c, 2),
                       true, DType::f32);
      for (const int lanes : {8, 16}) {
        SCOPED_TRACE(fmt::format("{} channels, {} samples, {} lanes", desc.out_channels, n, lanes));
        desc.input_format = Format::batch_interleaved(lanes);
        const int64_t sizes[] = {n};
        expect_agreement(*device, *ops->conv2d(desc, sizes), e, desc.input_format, DType::f32);
      }
      desc.input_format = {};
    }
}

TEST_P(InstructionSetTest, Linear) {
  struct Size {
    int64_t n, in, out;
  };
  for (const auto& [n, in, out] : {Size{8, 800, 128}, Size{17, 30, 7}, Size{128, 128, 10}})
    for (const DType dtype : {DType::f32, DType::bf16})
      for (const Format from : kAllFormats) {
        SCOPED_TRACE(fmt::format("{} x {} x {}, {}, {}", n, in, out, testing::name_of(dtype), from.block));
        const LinearDesc desc{.in_features = in, .out_features = out, .input_format = from, .relu = true};
        LinearDesc dense = desc;
        dense.input_format = {};
        const Expected e(*device, *reference->linear(dense, {}), {n, {1, 1, in}}, {n, {1, 1, out}},
                         random_values(in * out, 2), true, dtype);
        const int64_t sizes[] = {n};
        expect_agreement(*device, *make_cpu_ops(*device, config(dtype))->linear(desc, sizes), e, from, dtype);
      }
}

TEST_P(InstructionSetTest, BatchNorm) {
  for (const auto& [n, c] : {std::pair{5, 20}, std::pair{17, 33}})
    for (const DType dtype : {DType::f32, DType::bf16})
      for (const Format format : kAllFormats) {
        SCOPED_TRACE(fmt::format("{} samples, {} channels, {}, {}", n, c, testing::name_of(dtype), format.block));
        const Shape shape{n, {7, 6, c}};
        const BatchNormDesc desc{.input = shape.image, .format = format, .relu = true};
        BatchNormDesc dense = desc;
        dense.format = {};
        const int64_t sizes[] = {n};
        const Values x = rounded(random_values(shape.elements(), 1), dtype),
                     dy = rounded(random_values(shape.elements(), 2), dtype);
        const auto cpu_ops = make_cpu_ops(*device, config(dtype));
        const auto tested = cpu_ops->batch_norm(desc, sizes), wanted = reference->batch_norm(dense, sizes);
        Values sums(2 * c), wanted_sums(2 * c);
        Owned ax(*device, shape, format, x, dtype), ay(shape, format, dtype), adx(shape, format, dtype);
        Owned wx(*device, shape, {}, x), wy(shape, {}), wdy(*device, shape, {}, dy), wdx(shape, {});
        const float count = static_cast<float>(shape.elements() / c);
        wanted->sum(wx.tensor(), nullptr, wanted_sums.data());
        wanted->forward(wx.tensor(), {}, wy.tensor(), nullptr, wanted_sums.data(), count);
        tested->sum(ax.tensor(), nullptr, sums.data());
        expect_close(sums, wanted_sums, "sums");
        tested->forward(ax.tensor(), {}, ay.tensor(), nullptr, sums.data(), count);
        expect_close(ay.dense(*device), wy.memory, dtype, "y");
        Owned given(*device, shape, format, wy.memory, dtype), ady(*device, shape, format, dy, dtype);
        wanted->backward_sum(wx.tensor(), wy.tensor(), {}, wdy.tensor(), wanted_sums.data());
        tested->backward_sum(ax.tensor(), given.tensor(), {}, ady.tensor(), sums.data());
        expect_close(sums, wanted_sums, "backward sums");
        wanted->backward(wx.tensor(), wdy.tensor(), wdx.tensor(), wanted_sums.data(), count);
        tested->backward(ax.tensor(), ady.tensor(), adx.tensor(), sums.data(), count);
        expect_close(adx.dense(*device), wdx.memory, dtype, "dx");
      }
}

TEST_P(InstructionSetTest, Pool2d) {
  for (const auto kind : {Pool2dDesc::Kind::average, Pool2dDesc::Kind::maximum, Pool2dDesc::Kind::global_average})
    for (const DType dtype : {DType::f32, DType::bf16})
      for (const Format format : kAllFormats) {
        SCOPED_TRACE(fmt::format("kind {}, {}, {}", static_cast<int>(kind), testing::name_of(dtype), format.block));
        const Pool2dDesc dense{kind, {9, 8, 20}, {}, {2, 2}};
        Pool2dDesc desc = dense;
        desc.format = format;
        const Shape in{17, desc.input}, out{17, pool2d_output(desc)};
        const int64_t sizes[] = {17};
        const Values x = rounded(random_values(in.elements(), 1), dtype),
                     dy = rounded(random_values(out.elements(), 2), dtype);
        const auto cpu_ops = make_cpu_ops(*device, config(dtype));
        const auto tested = cpu_ops->pool2d(desc, sizes), wanted = reference->pool2d(dense, sizes);
        Owned wx(*device, in, {}, x), wy(out, {}), wdy(*device, out, {}, dy), wdx(in, {});
        Owned ax(*device, in, format, x, dtype), ay(out, format, dtype), ady(*device, out, format, dy, dtype),
            adx(in, format, dtype);
        wanted->forward(wx.tensor(), wy.tensor());
        wanted->backward(wx.tensor(), wy.tensor(), wdy.tensor(), wdx.tensor());
        tested->forward(ax.tensor(), ay.tensor());
        tested->backward(ax.tensor(), ay.tensor(), ady.tensor(), adx.tensor());
        expect_close(ay.dense(*device), wy.memory, dtype, "y");
        expect_close(adx.dense(*device), wdx.memory, dtype, "dx");
      }
}

TEST_P(InstructionSetTest, Elementwise) {
  constexpr int64_t kCount = 16384 + 16 + 8 + 3;  // vectors of 16, of 8, and single values
  const Shape shape{1, {1, 1, kCount}};
  for (const DType dtype : {DType::f32, DType::bf16}) {
    SCOPED_TRACE(testing::name_of(dtype));
    const Values a = rounded(random_values(kCount, 1), dtype), b = rounded(random_values(kCount, 2), dtype);
    Owned x(*device, shape, {}, a, dtype), other(*device, shape, {}, b, dtype), y(shape, {}, dtype);
    Values relu(kCount), masked(kCount), sum(kCount);
    for (int64_t i = 0; i < kCount; ++i) {
      relu[i] = std::max(a[i], 0.0f);
      masked[i] = a[i] > 0 ? b[i] : 0;
      sum[i] = a[i] + b[i];
    }
    ops->relu(x.tensor(), y.tensor());
    EXPECT_EQ(y.dense(*device), relu);
    ops->relu_backward(x.tensor(), other.tensor(), y.tensor());
    EXPECT_EQ(y.dense(*device), masked);
    ops->add(x.tensor(), other.tensor(), y.tensor());
    EXPECT_EQ(y.dense(*device), rounded(sum, dtype));
  }
}

TEST_P(InstructionSetTest, FlatBuffers) {
  constexpr int64_t kCount = 16384 + 1024 + 64 + 5;
  const Values values = random_values(kCount, 1);
  std::vector<uint16_t> half(kCount);
  Values back(kCount), sum = values;
  ops->to_bf16(values.data(), half.data(), kCount);
  ops->from_bf16(half.data(), back.data(), kCount);
  EXPECT_EQ(back, rounded(values, DType::bf16));
  ops->copy_or_add(back.data(), sum.data(), kCount, Gradient::add);
  double squares = 0;
  for (int64_t i = 0; i < kCount; ++i) {
    EXPECT_EQ(sum[i], values[i] + back[i]);
    squares += static_cast<double>(values[i]) * values[i];
  }
  float total = 0, flag = 0;
  ops->sum_of_squares(values.data(), kCount, &total, Gradient::overwrite);
  EXPECT_NEAR(total, squares, 1e-6 * squares);
  ops->flag_nonfinite(values.data(), kCount, 1, &flag);
  EXPECT_EQ(flag, 0);
  sum.back() = INFINITY;
  ops->flag_nonfinite(sum.data(), kCount, 1, &flag);
  EXPECT_EQ(flag, 1);
}

// The weights and the state after three steps.
std::array<Values, 3> trained(Ops& ops, const OptimizerDesc& desc) {
  constexpr int64_t kCount = 40013;
  const OptimizerTensor tensors[] = {{0, 40000, true}, {40000, 13, false}};
  std::array<Values, 3> of = {random_values(kCount, 1), Values(kCount), Values(kCount)};
  const auto optimizer = ops.optimizer(desc, tensors);
  for (uint64_t step = 1; step <= 3; ++step) {
    const Values gradients = random_values(kCount, 1 + step);
    const float t = static_cast<float>(step), skip = 0;
    const OptimizerScalars scalars{.lr = 0.1f,
                                   .correction1 = 1 - std::pow(desc.beta1, t),
                                   .correction2 = 1 - std::pow(desc.beta2, t),
                                   .gradient_scale = 0.5f};
    optimizer->step({of[0].data(), gradients.data(), 0, kCount, {of[1].data(), of[2].data()}}, &scalars, {&skip, 1});
  }
  return of;
}

TEST_P(InstructionSetTest, OptimizersGiveTheSameBitsAsTheBaseSet) {
  using enum OptimizerDesc::Kind;
  const OptimizerDesc descs[] = {{.kind = sgd, .weight_decay = 0.1f},
                                 {.kind = sgd, .momentum = 0.9f, .nesterov = true, .weight_decay = 0.1f},
                                 {.kind = adam, .weight_decay = 0.1f},
                                 {.kind = adam, .weight_decay = 0.1f, .decoupled = true}};
  const auto base = make_cpu_ops(*device, {.instruction_set = InstructionSet::base});
  for (const OptimizerDesc& desc : descs) {
    SCOPED_TRACE(fmt::format("kind {}, momentum {}", static_cast<int>(desc.kind), desc.momentum));
    EXPECT_EQ(trained(*ops, desc), trained(*base, desc));
    expect_close(trained(*ops, desc)[0], trained(*reference, desc)[0], "weights", 1e-6);
  }
  // The factors of lars come from sums of squares, which the sets round in different ways.
  const OptimizerDesc scaled{.kind = lars, .momentum = 0.9f, .weight_decay = 0.01f};
  expect_close(trained(*ops, scaled)[0], trained(*reference, scaled)[0], "weights", 1e-6);
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
    EXPECT_STREQ(error.what(), "--cpu-isa v4: this processor has v3 at most");
  }
}

// bf16 convolutions of oneDNN need AVX-512.
TEST(InstructionSetOfProcessor, SmallerSetRefusesBf16Convolutions) {
  if (best_instruction_set() == InstructionSet::base) GTEST_SKIP() << "this processor has no smaller set";
  const auto device = make_cpu_device();
  const auto ops = make_cpu_ops(*device, {.precision = Precision::bf16, .instruction_set = InstructionSet::base});
  const int64_t sizes[] = {8};
  EXPECT_THROW(ops->conv2d({.input = {8, 8, 16}, .input_format = {}, .out_channels = 16, .window = {3}}, sizes), Error);
}

}  // namespace
}  // namespace ddp::testing
