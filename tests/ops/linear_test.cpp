#include "core/error.h"
#include "ops/cpu/lane_kernels.h"
#include "tests/ops/rig.h"

#include <fmt/format.h>

namespace ddp::testing {
namespace {

struct Case {
  int64_t n, in, out;
  bool relu = false;
};

const Case kCases[] = {{8, 800, 128, true}, {128, 128, 10},   {17, 30, 7, true},
                       {1, 1, 1},           {5, 9, 23, true}, {48, 64, 12}};

class LinearTest : public ::testing::TestWithParam<Case> {};

TEST_P(LinearTest, AgreesWithTheReference) {
  const Case c = GetParam();
  const auto device = make_cpu_device();
  const auto reference_ops = make_reference_ops(*device);
  LinearDesc desc{.in_features = c.in, .out_features = c.out, .input_format = {}, .relu = c.relu};
  const Shape in{c.n, {1, 1, c.in}}, out{c.n, {1, 1, c.out}};
  const int64_t weights = c.in * c.out;
  const Values x = random_values(in.elements(), 1), w = random_values(weights, 2), b = random_values(c.out, 3),
               dy = random_values(out.elements(), 4), dw0 = random_values(weights, 5), db0 = random_values(c.out, 6);

  Owned rx(*device, in, {}, x), ry(out, {}), rdy(*device, out, {}, dy), rdx(in, {});
  Values rdw(weights), rdb(c.out);
  const auto reference = reference_ops->linear(desc, {});
  reference->bind(w.data(), b.data());
  reference->forward(rx.tensor(), ry.tensor());
  reference->backward_weight(rx.tensor(), ry.tensor(), rdy.tensor(), rdw.data(), rdb.data(), Gradient::overwrite);
  reference->backward_input(rdy.tensor(), rdx.tensor());

  std::vector<Format> formats = {{}, Format::lanes(8)};
  if (widest_lanes() == 16) formats.push_back(Format::lanes(16));
  for (const Format from : formats)
    for (const int threads : {1, 2}) {
      SCOPED_TRACE(fmt::format("block {}, {} threads", from.block, threads));
      const auto ops = make_cpu_ops(*device, threads);
      desc.input_format = from;
      const int64_t sizes[] = {c.n, c.n + 3};
      const auto linear = ops->linear(desc, sizes);
      const Format to = linear->output_format();
      Owned ax(*device, in, from, x), ay(out, to), ady(*device, out, to, dy), adx(in, from);
      Values adw(weights, NAN), adb(c.out, NAN), sum_dw = dw0, sum_db = db0;
      linear->bind(w.data(), b.data());
      linear->forward(ax.tensor(), ay.tensor());
      expect_close(ay.dense(*device), ry.memory, "y");
      Owned y(*device, out, to, ry.memory);
      linear->backward_weight(ax.tensor(), y.tensor(), ady.tensor(), adw.data(), adb.data(), Gradient::overwrite);
      linear->backward_input(ady.tensor(), adx.tensor());
      expect_close(adw, rdw, "dweight");
      expect_close(adb, rdb, "dbias");
      expect_close(adx.dense(*device), rdx.memory, "dx");
      expect_padding_zero(adx, "dx");
      linear->backward_weight(ax.tensor(), y.tensor(), ady.tensor(), sum_dw.data(), sum_db.data(), Gradient::add);
      Values wanted_dw = rdw, wanted_db = rdb;
      for (int64_t i = 0; i < weights; ++i) wanted_dw[i] += dw0[i];
      for (int64_t i = 0; i < c.out; ++i) wanted_db[i] += db0[i];
      expect_close(sum_dw, wanted_dw, "dweight added");
      expect_close(sum_db, wanted_db, "dbias added");
    }
}

INSTANTIATE_TEST_SUITE_P(Shapes, LinearTest, ::testing::ValuesIn(kCases), [](const auto& tested) {
  return fmt::format("n{}_{}to{}{}", tested.param.n, tested.param.in, tested.param.out,
                     tested.param.relu ? "_relu" : "");
});

TEST(LinearPlan, RefusesMoreSamplesThanDeclared) {
  const auto device = make_cpu_device();
  const auto ops = make_cpu_ops(*device, 1);
  const int64_t sizes[] = {4};
  const auto linear = ops->linear({.in_features = 3, .out_features = 2, .input_format = {}}, sizes);
  Owned x({5, {1, 1, 3}}, {}), y({5, {1, 1, 2}}, linear->output_format());
  EXPECT_THROW(linear->forward(x.tensor(), y.tensor()), Error);
}

}  // namespace
}  // namespace ddp::testing
