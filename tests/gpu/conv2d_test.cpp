#include "tests/gpu/fixture.h"

#include <tuple>

namespace ddp::testing {
namespace {

struct Case {
  int64_t n, h, w, in, out, kernel, stride = 1;
  Padding padding = {};
  bool relu = false, bias = true;
};

const Case kCases[] = {
    {256, 26, 26, 1, 20, 3, 1, 0, true},  // LeNet's at full, half and short batch size
    {256, 12, 12, 20, 50, 5, 1, 0, true},
    {128, 12, 12, 20, 50, 5, 1, 0, true},
    {96, 26, 26, 1, 20, 3, 1, 0, true},
    {1, 26, 26, 1, 20, 3, 1, 0, true},
    {1, 12, 12, 20, 50, 5, 1, 0, true},
    {17, 13, 13, 20, 50, 5, 1, 0, true},
    {128, 6, 6, 3, 7, 3},
    {1, 5, 5, 1, 1, 5},
    {5, 9, 7, 3, 11, 1},
    {5, 9, 7, 4, 6, 1, 2},
    {8, 11, 10, 6, 16, 5, 1, 2, true},
    {17, 12, 9, 3, 13, 3, 2, 1, true},
    {3, 10, 10, 2, 4, 7, 2, 3},
    {4, 4, 4, 3, 5, 3, 1, 2},
    {6, 3, 3, 2, 3, 5, 1, 2},
    {3, 12, 12, 3, 64, 5, 1, 2, true},
    {16, 8, 8, 64, 128, 3, 1, 1, true},  // wide
    {9, 8, 8, 128, 128, 3, 1, 1},
    {5, 9, 9, 128, 64, 3, 2, 1, true},
    {5, 8, 8, 64, 128, 1, 2},
    {17, 14, 14, 64, 64, 3, 1, 1, false, false},  // no bias
    {5, 9, 7, 12, 24, 3, 1, 1, true, false},
    {6, 14, 14, 24, 32, 5, 2, {1, 1, 2, 2}, true},  // asymmetric padding
    {3, 9, 7, 3, 17, 3, 2, {0, 1, 2, 0}, false, false},
    {1, 8, 8, 8, 16, 2, 1, {0, 0, 1, 1}},
};

class Conv2dOnGpu : public ::testing::TestWithParam<std::tuple<Precision, Case>> {};

TEST_P(Conv2dOnGpu, AgreesWithTheReference) {
  const auto& [precision, c] = GetParam();
  const double tolerance = tolerance_of(precision);
  const auto cpu = make_cpu_device();
  const Gpu gpu(precision);
  Device& device = *gpu.device;
  const DType dtype = gpu.ops->activation_dtype();
  const Conv2dDesc desc{.input = {c.h, c.w, c.in},
                        .input_format = {},
                        .out_channels = c.out,
                        .window = {c.kernel, c.stride, c.padding},
                        .bias = c.bias,
                        .relu = c.relu};
  const Shape in{c.n, desc.input}, out{c.n, conv2d_output(desc)};
  const int64_t weights = c.out * c.kernel * c.kernel * c.in;
  const Values x = rounded(random_values(in.elements(), 1), dtype), w = rounded(random_values(weights, 2), dtype),
               b = rounded(random_values(c.out, 3), dtype), dy = rounded(random_values(out.elements(), 4), dtype),
               dw0 = random_values(weights, 5), db0 = random_values(c.out, 6);

  Owned rx(*cpu, in, {}, x), ry(out, {}), rdy(*cpu, out, {}, dy), rdx(in, {});
  Values rdw(weights), rdb(c.out);
  const auto reference = make_reference_ops(*cpu)->conv2d(desc, {});
  reference->bind(w.data(), c.bias ? b.data() : nullptr);
  reference->forward(rx.tensor(), ry.tensor());
  reference->backward_weight(rx.tensor(), ry.tensor(), rdy.tensor(), rdw.data(), c.bias ? rdb.data() : nullptr,
                             Gradient::overwrite);
  reference->backward_input(rdy.tensor(), rdx.tensor());

  const OnGpu ax(device, x, dtype), aw(device, w), ab(device, b), ady(device, dy, dtype);
  const OnGpu ay(device, out.elements(), dtype), adx(device, in.elements(), dtype);
  const int64_t sizes[] = {c.n, c.n + 1};
  const auto conv = gpu.ops->conv2d(desc, sizes);
  ASSERT_EQ(conv->output_format(), Format{});
  conv->bind(aw.f32(), c.bias ? ab.f32() : nullptr);
  conv->forward(ax.tensor(in), ay.tensor(out));
  expect_agrees(ay.values(), ry.memory, "y", tolerance);

  // Rounding decides the sign of a y near 0, so the gradients use the reference's y.
  const OnGpu y(device, ry.memory, dtype), dw(device, weights), db(device, c.out), sum_dw(device, dw0),
      sum_db(device, db0);
  conv->backward_weight(ax.tensor(in), y.tensor(out), ady.tensor(out), dw.f32(), c.bias ? db.f32() : nullptr,
                        Gradient::overwrite);
  conv->backward_input(ady.tensor(out), adx.tensor(in));
  EXPECT_EQ(ady.values(), rdy.memory) << "dy, masked where there is a ReLU";
  expect_agrees(dw.values(), rdw, "dweight", tolerance);
  if (c.bias) expect_agrees(db.values(), rdb, "dbias", tolerance);
  expect_agrees(adx.values(), rdx.memory, "dx", tolerance);

  conv->backward_weight(ax.tensor(in), y.tensor(out), ady.tensor(out), sum_dw.f32(), c.bias ? sum_db.f32() : nullptr,
                        Gradient::add);
  for (int64_t i = 0; i < weights; ++i) rdw[i] += dw0[i];
  for (int64_t i = 0; i < c.out; ++i) rdb[i] += db0[i];
  expect_agrees(sum_dw.values(), rdw, "dweight added", tolerance);
  if (c.bias) expect_agrees(sum_db.values(), rdb, "dbias added", tolerance);
}

std::string case_name(const ::testing::TestParamInfo<std::tuple<Precision, Case>>& tested) {
  const auto& [precision, c] = tested.param;
  const auto& [top, left, bottom, right] = c.padding;
  return fmt::format("{}_n{}_{}x{}x{}_o{}_k{}_s{}_p{}_{}_{}_{}{}{}", name_of(precision), c.n, c.h, c.w, c.in, c.out,
                     c.kernel, c.stride, top, left, bottom, right, c.relu ? "_relu" : "", c.bias ? "" : "_unbiased");
}
INSTANTIATE_TEST_SUITE_P(, Conv2dOnGpu,
                         ::testing::Combine(::testing::ValuesIn(kPrecisions), ::testing::ValuesIn(kCases)), case_name);

// One plan runs every declared batch size. The weights change between calls.
TEST(Conv2dPlanOnGpu, RunsEveryDeclaredBatchSizeAndReadsNewWeights) {
  const auto cpu = make_cpu_device();
  for (const Precision precision : kPrecisions) {
    const Gpu gpu(precision);
    const DType dtype = gpu.ops->activation_dtype();
    const Conv2dDesc desc{.input = {12, 12, 20}, .input_format = {}, .out_channels = 50, .window = {5}};
    const int64_t sizes[] = {128, 96, 3, 1};
    const auto conv = gpu.ops->conv2d(desc, sizes);
    const auto reference = make_reference_ops(*cpu)->conv2d(desc, {});
    for (const int64_t n : sizes) {
      const Shape in{n, desc.input}, out{n, conv2d_output(desc)};
      const Values x = rounded(random_values(in.elements(), n), dtype), b(50, 0.5f);
      const Values w = rounded(random_values(50 * 25 * 20, n + 1), dtype);
      Owned rx(*cpu, in, {}, x), ry(out, {});
      reference->bind(w.data(), b.data());
      reference->forward(rx.tensor(), ry.tensor());
      const OnGpu ax(*gpu.device, x, dtype), aw(*gpu.device, w), ab(*gpu.device, b);
      const OnGpu ay(*gpu.device, out.elements(), dtype);
      conv->bind(aw.f32(), ab.f32());
      conv->forward(ax.tensor(in), ay.tensor(out));
      expect_agrees(ay.values(), ry.memory, "y", tolerance_of(precision));
    }
  }
}

}  // namespace
}  // namespace ddp::testing
