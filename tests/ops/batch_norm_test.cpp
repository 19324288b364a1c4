#include "core/error.h"
#include "tests/ops/fixture.h"

#include <fmt/format.h>

#include <optional>

namespace ddp::testing {
namespace {

struct BatchNormCase {
  int64_t n, h, w, c;
  bool relu = false, add = false, more = false, affine = true, center = true;
};

const BatchNormCase kBatchNormCases[] = {
    {5, 7, 6, 20, true},
    {17, 3, 3, 16, true, true, true},
    {1, 1, 1, 1, false, false, false, false, false},
    {4, 1, 1, 5, false, true, true},
    {3, 2, 5, 33, false, false, true, true, false},
    {9, 1, 1, 40, true, true, false, false},
    {19, 33, 32, 64, true, false, true},  // several work items per sample
    {33, 16, 16, 24, true, true, true},   // several samples per work item
    {3, 300, 7, 3, false, false, false},  // few channels
};

class BatchNormTest : public ::testing::TestWithParam<BatchNormCase> {};

// Multiples of 1/64. A sum of two of them is exact in bf16.
Values coarse(int64_t count, uint64_t seed) {
  Values values = random_values(count, seed);
  for (float& v : values) v = std::round(v * 64) / 64;
  return values;
}

Values shifted(Values values, float shift) {
  for (float& v : values) v += shift;
  return values;
}

// The outputs of a training step and an evaluation.
struct Written {
  Values sums, y, dy, backward_sums, dx, evaluated;
};

struct Inputs {
  Values x, skip, more, dy, scale, shift, center, mean, variance;
};

Inputs inputs(const BatchNormCase& c, DType dtype) {
  const int64_t count = c.n * c.h * c.w * c.c;
  return {rounded(shifted(random_values(count, 1), 1), dtype),
          rounded(random_values(count, 2), dtype),
          coarse(count, 3),
          coarse(count, 4),
          shifted(random_values(c.c, 5), 1.5f),
          random_values(c.c, 6),
          shifted(random_values(c.c, 7), 1),
          shifted(random_values(c.c, 8), 1),
          shifted(random_values(c.c, 9), 1.25f)};
}

// `y_of_relu` replaces y in the backward calls, so a value near 0 has the same sign in all formats.
Written run(Ops& ops, Device& device, const BatchNormCase& c, const Inputs& in, Format format, DType dtype,
            const Values* y_of_relu) {
  const Shape shape{c.n, {c.h, c.w, c.c}};
  const int64_t sizes[] = {c.n, 2};
  const auto norm =
      ops.batch_norm({.input = shape.image, .format = format, .epsilon = 1e-3f, .relu = c.relu, .add = c.add}, sizes);
  if (c.affine) norm->bind(in.scale.data(), in.shift.data());
  Owned x(device, shape, format, in.x, dtype), skip(device, shape, format, in.skip, dtype), y(shape, format, dtype),
      more(device, shape, format, in.more, dtype), dy(device, shape, format, in.dy, dtype), dx(shape, format, dtype),
      evaluated(shape, format, dtype);
  if (format.kind == Format::Kind::batch_interleaved) {  // activations past n may hold any finite value
    x.each_padding([](float) { return 1000.0f; });
    skip.each_padding([](float) { return -1000.0f; });
  }
  const Tensor no_tensor;
  const float* const center = c.center ? in.center.data() : nullptr;
  const float count = static_cast<float>(c.n * c.h * c.w);
  Written out;
  out.sums.assign(2 * c.c, NAN);
  out.backward_sums.assign(2 * c.c, NAN);
  norm->sum(x.tensor(), center, out.sums.data());
  norm->forward(x.tensor(), c.add ? skip.tensor() : no_tensor, y.tensor(), center, out.sums.data(), count);
  norm->evaluate(x.tensor(), c.add ? skip.tensor() : no_tensor, evaluated.tensor(), in.mean.data(), in.variance.data());
  out.y = y.dense(device);
  out.evaluated = evaluated.dense(device);
  std::optional<Owned> given;
  if (y_of_relu) given.emplace(device, shape, format, *y_of_relu, dtype);
  norm->backward_sum(x.tensor(), c.relu ? (given ? *given : y).tensor() : no_tensor, c.more ? more.tensor() : no_tensor,
                     dy.tensor(), out.backward_sums.data());
  norm->backward(x.tensor(), dy.tensor(), dx.tensor(), out.backward_sums.data(), count);
  out.dy = dy.dense(device);
  out.dx = dx.dense(device);
  if (format.kind == Format::Kind::blocked_channels) {
    expect_padding_zero(y, "y");
    expect_padding_zero(evaluated, "y of evaluation");
  }
  expect_padding_finite(y, "y");
  expect_padding_zero(dy, "dy");
  expect_padding_zero(dx, "dx");
  norm->backward(x.tensor(), dy.tensor(), dy.tensor(), out.backward_sums.data(), count);
  EXPECT_EQ(dy.dense(device), out.dx) << "in place";
  return out;
}

TEST_P(BatchNormTest, AgreesWithTheReference) {
  const BatchNormCase c = GetParam();
  const auto device = make_cpu_device();
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const Inputs in = inputs(c, dtype);
    const Written expected = run(*make_reference_ops(*device), *device, c, in, {}, DType::f32, nullptr);
    for (const Format format : kAllFormats) {
      std::optional<Written> one_thread;
      for (const int threads : {1, 2}) {
        SCOPED_TRACE(fmt::format("kind {} block {}, {}, {} threads", static_cast<int>(format.kind), format.block,
                                 name_of(dtype), threads));
        const auto ops = make_cpu_ops(*device, config_of(dtype, threads));
        const Written actual = run(*ops, *device, c, in, format, dtype, &expected.y);
        expect_close(actual.sums, expected.sums, "sums");
        expect_close(actual.y, expected.y, dtype, "y");
        expect_close(actual.evaluated, expected.evaluated, dtype, "y of evaluation");
        expect_close(actual.dy, expected.dy, dtype, "dy");
        expect_close(actual.backward_sums, expected.backward_sums, "sums of backward", 2e-5);
        expect_close(actual.dx, expected.dx, dtype, "dx");
        if (!one_thread) one_thread = actual;
        EXPECT_EQ(actual.sums, one_thread->sums);
        EXPECT_EQ(actual.backward_sums, one_thread->backward_sums);
        EXPECT_EQ(actual.dx, one_thread->dx);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(, BatchNormTest, ::testing::ValuesIn(kBatchNormCases), [](const auto& tested) {
  const BatchNormCase& c = tested.param;
  return fmt::format("n{}_{}x{}x{}{}{}{}", c.n, c.h, c.w, c.c, c.relu ? "_relu" : "", c.add ? "_add" : "",
                     c.more ? "_more" : "");
});

// The mean is large compared with the deviation. Without a center near the mean, all digits would cancel.
TEST(BatchNorm, CenterPreservesVariancePrecision) {
  const auto device = make_cpu_device();
  const auto ops = make_cpu_ops(*device, {});
  const Shape shape{16, {8, 8, 16}};
  const Values noise = random_values(shape.elements(), 1), center(16, 1000);
  Owned x(*device, shape, Format::blocked_channels(16), shifted(noise, 1000)), y(shape, Format::blocked_channels(16));
  const int64_t sizes[] = {16};
  const auto norm = ops->batch_norm({.input = shape.image, .format = Format::blocked_channels(16)}, sizes);
  Values sums(32);
  norm->sum(x.tensor(), center.data(), sums.data());
  norm->forward(x.tensor(), {}, y.tensor(), center.data(), sums.data(), 16 * 64);
  double squares = 0;
  for (const float v : y.dense(*device)) squares += static_cast<double>(v) * v;
  EXPECT_NEAR(squares / static_cast<double>(shape.elements()), 1, 1e-3);
}

TEST(BatchNorm, SumsOfShardsAddUp) {
  const auto device = make_cpu_device();
  const auto ops = make_cpu_ops(*device, {});
  const ImageShape image{5, 4, 24};
  const int64_t sizes[] = {3, 4, 7};
  const Format format = Format::blocked_channels(16);
  const auto norm = ops->batch_norm({.input = image, .format = format}, sizes);
  const Values x = random_values(7 * image.elements(), 1);
  const auto sums_of = [&](int64_t first, int64_t n) {
    Owned part(*device, {n, image}, format,
               {x.begin() + first * image.elements(), x.begin() + (first + n) * image.elements()});
    Values sums(48);
    norm->sum(part.tensor(), nullptr, sums.data());
    return sums;
  };
  Values added = sums_of(0, 3);
  const Values rest = sums_of(3, 4);
  for (size_t i = 0; i < added.size(); ++i) added[i] += rest[i];
  expect_close(added, sums_of(0, 7), "sums", 1e-6);
}

TEST(BatchNorm, RefusesMoreSamplesThanDeclared) {
  const auto device = make_cpu_device();
  const int64_t sizes[] = {4};
  const auto norm = make_cpu_ops(*device, {})->batch_norm({.input = {1, 1, 3}, .format = {}}, sizes);
  Owned x({5, {1, 1, 3}}, {});
  Values sums(6);
  EXPECT_THROW(norm->sum(x.tensor(), nullptr, sums.data()), Error);
}

class RunningStatsTest : public ::testing::TestWithParam<bool> {  // true: the reference ops
 protected:
  std::unique_ptr<Device> device = make_cpu_device();
  std::unique_ptr<Ops> ops = GetParam() ? make_reference_ops(*device) : make_cpu_ops(*device, {});
};
INSTANTIATE_TEST_SUITE_P(, RunningStatsTest, ::testing::Bool());

// Two layers without a gap between them; sums of known values.
TEST_P(RunningStatsTest, MoveTowardsBatchStatistics) {
  const RunningStatsSpan layers[] = {
      {.offset = 0, .channels = 2, .positions = 2, .momentum = 0.1f, .unbiased = true},
      {.offset = 4, .channels = 1, .positions = 1, .momentum = 0.25f, .unbiased = false}};
  const auto stats = ops->running_stats(layers);
  // layer 0: means 1 and 0, variances 1 and 4; layer 1: mean 2, variance 1
  const Values before = {1, 0, 1, 4, 2, 1};
  // 2 samples. Values minus the means: layer 0 has (1, 1, 3, 3) and (-2, 2, -2, 2), layer 1 has (-1, 3).
  const Values sums = {8, 0, 20, 16, 2, 10};
  // layer 0: means and unbiased variances; layer 1: mean and biased variance
  const Values batch = {3, 0, 4.0f / 3, 16.0f / 3, 3, 4};
  const float go[] = {0, 0}, skip[] = {0, 1};
  Values state = before;
  stats->update(state.data(), sums.data(), 2, false, skip);
  EXPECT_EQ(state, before);
  stats->update(state.data(), sums.data(), 2, false, go);
  for (size_t i = 0; i < state.size(); ++i) {
    const float momentum = i < 4 ? 0.1f : 0.25f;
    EXPECT_NEAR(state[i], before[i] + momentum * (batch[i] - before[i]), 1e-6) << i;
  }
  state = before;
  stats->update(state.data(), sums.data(), 2, true, go);
  for (size_t i = 0; i < state.size(); ++i) EXPECT_NEAR(state[i], batch[i], 1e-6) << i;
}

TEST_P(RunningStatsTest, VarianceOfOneValueIsZero) {
  const RunningStatsSpan layer[] = {{.offset = 0, .channels = 1}};
  Values state = {2, 5};
  const Values sums = {3, 9};
  ops->running_stats(layer)->update(state.data(), sums.data(), 1, true, {});
  EXPECT_EQ(state, (Values{5, 0}));
}

}  // namespace
}  // namespace ddp::testing
