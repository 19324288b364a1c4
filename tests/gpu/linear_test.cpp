#include "tests/gpu/fixture.h"

#include <tuple>

namespace ddp::testing {
namespace {

struct Case {
  int64_t n, in, out;
  bool relu = false;
};

const Case kCases[] = {
    {256, 800, 128, true}, {256, 128, 10}, {96, 800, 128, true}, {1, 800, 128, true}, {1, 128, 10},
    {17, 30, 7, true},     {1, 1, 1},      {5, 9, 23, true},     {48, 64, 12},        {64, 1024, 512, true}};

class LinearOnGpu : public ::testing::TestWithParam<std::tuple<Precision, Case>> {};

TEST_P(LinearOnGpu, AgreesWithTheReference) {
  const auto& [precision, c] = GetParam();
  const double tolerance = tolerance_of(precision);
  const auto cpu = make_cpu_device();
  const Gpu gpu(precision);
  Device& device = *gpu.device;
  const DType dtype = gpu.ops->activation_dtype();
  const LinearDesc desc{.in_features = c.in, .out_features = c.out, .input_format = {}, .relu = c.relu};
  const Shape in{c.n, {1, 1, c.in}}, out{c.n, {1, 1, c.out}};
  const int64_t weights = c.in * c.out;
  const Values x = rounded(random_values(in.elements(), 1), dtype), w = rounded(random_values(weights, 2), dtype),
               b = rounded(random_values(c.out, 3), dtype), dy = rounded(random_values(out.elements(), 4), dtype),
               dw0 = random_values(weights, 5), db0 = random_values(c.out, 6);

  Owned rx(*cpu, in, {}, x), ry(out, {}), rdy(*cpu, out, {}, dy), rdx(in, {});
  Values rdw(weights), rdb(c.out);
  const auto reference = make_reference_ops(*cpu)->linear(desc, {});
  reference->bind(w.data(), b.data());
  reference->forward(rx.tensor(), ry.tensor());
  reference->backward_weight(rx.tensor(), ry.tensor(), rdy.tensor(), rdw.data(), rdb.data(), Gradient::overwrite);
  reference->backward_input(rdy.tensor(), rdx.tensor());

  const OnGpu ax(device, x, dtype), aw(device, w), ab(device, b), ady(device, dy, dtype);
  const OnGpu ay(device, out.elements(), dtype), adx(device, in.elements(), dtype);
  const int64_t sizes[] = {c.n, c.n + 3};
  const auto linear = gpu.ops->linear(desc, sizes);
  ASSERT_EQ(linear->output_format(), Format{});
  linear->bind(aw.f32(), ab.f32());
  linear->forward(ax.tensor(in), ay.tensor(out));
  expect_agrees(ay.values(), ry.memory, "y", tolerance);

  const OnGpu y(device, ry.memory, dtype), dw(device, weights), db(device, c.out), sum_dw(device, dw0),
      sum_db(device, db0);
  linear->backward_weight(ax.tensor(in), y.tensor(out), ady.tensor(out), dw.f32(), db.f32(), Gradient::overwrite);
  linear->backward_input(ady.tensor(out), adx.tensor(in));
  expect_agrees(dw.values(), rdw, "dweight", tolerance);
  expect_agrees(db.values(), rdb, "dbias", tolerance);
  expect_agrees(adx.values(), rdx.memory, "dx", tolerance);

  linear->backward_weight(ax.tensor(in), y.tensor(out), ady.tensor(out), sum_dw.f32(), sum_db.f32(), Gradient::add);
  for (int64_t i = 0; i < weights; ++i) rdw[i] += dw0[i];
  for (int64_t i = 0; i < c.out; ++i) rdb[i] += db0[i];
  expect_agrees(sum_dw.values(), rdw, "dweight added", tolerance);
  expect_agrees(sum_db.values(), rdb, "dbias added", tolerance);
}

INSTANTIATE_TEST_SUITE_P(, LinearOnGpu,
                         ::testing::Combine(::testing::ValuesIn(kPrecisions), ::testing::ValuesIn(kCases)),
                         [](const auto& tested) {
                           const Case& c = std::get<1>(tested.param);
                           return fmt::format("{}_n{}_{}to{}{}", name_of(std::get<0>(tested.param)), c.n, c.in, c.out,
                                              c.relu ? "_relu" : "");
                         });

}  // namespace
}  // namespace ddp::testing
