#include "core/error.h"
#include "tests/ops/expected.h"

#include <fmt/format.h>

namespace ddp::testing {
namespace {

struct LinearCase {
  int64_t n, h, w, c, out;
  bool relu = false;
};

const LinearCase kLinearCases[] = {{8, 4, 4, 50, 128, true}, {128, 1, 1, 128, 10},   {17, 2, 3, 5, 7, true},
                                   {1, 1, 1, 1, 1},          {5, 3, 1, 3, 23, true}, {48, 1, 1, 64, 12},
                                   {20, 1, 1, 512, 10},      {3, 2, 2, 16, 9, true}, {33, 1, 1, 24, 6, true}};

class LinearTest : public ::testing::TestWithParam<LinearCase> {};

TEST_P(LinearTest, AgreesWithTheReference) {
  const LinearCase c = GetParam();
  const auto device = make_cpu_device();
  LinearDesc desc{.in_features = c.h * c.w * c.c, .out_features = c.out, .input_format = {}, .relu = c.relu};
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const Expected e(*device, *make_reference_ops(*device)->linear(desc, {}), {c.n, {c.h, c.w, c.c}},
                     {c.n, {1, 1, c.out}}, random_values(desc.in_features * c.out, 2), true, dtype);
    for (const Format from : kAllFormats)
      for (const int threads : {1, 2}) {
        SCOPED_TRACE(fmt::format("{}, format {}, block {}, {} threads", name_of(dtype), static_cast<int>(from.kind),
                                 from.block, threads));
        const auto ops = make_cpu_ops(*device, config_of(dtype, threads));
        desc.input_format = from;
        const int64_t sizes[] = {c.n, c.n + 3};
        const auto linear = ops->linear(desc, sizes);
        const Format to = linear->output_format();
        Owned ax(*device, e.in, from, e.x, dtype), ay(e.out, to, dtype), ady(*device, e.out, to, e.dy, dtype),
            adx(e.in, from, dtype);
        const Values dw0 = random_values(e.w.size(), 5), db0 = random_values(c.out, 6);
        Values adw(e.w.size(), NAN), adb(c.out, NAN), sum_dw = dw0, sum_db = db0;
        linear->bind(e.w.data(), e.b.data());
        linear->forward(ax.tensor(), ay.tensor());
        expect_close(ay.dense(*device), e.y, dtype, "y");
        expect_padding_finite(ay, "y");
        Owned y(*device, e.out, to, e.y, dtype);
        linear->backward_weight(ax.tensor(), y.tensor(), ady.tensor(), adw.data(), adb.data(), Gradient::overwrite);
        linear->backward_input(ady.tensor(), adx.tensor());
        expect_close(ady.dense(*device), e.masked, "masked dy");
        expect_close(adw, e.dw, "dweight");
        expect_close(adb, e.db, "dbias");
        expect_close(adx.dense(*device), e.dx, dtype, "dx");
        expect_padding_zero(adx, "dx");
        linear->backward_weight(ax.tensor(), y.tensor(), ady.tensor(), sum_dw.data(), sum_db.data(), Gradient::add);
        Values wanted_dw = e.dw, wanted_db = e.db;
        for (size_t i = 0; i < e.w.size(); ++i) wanted_dw[i] += dw0[i];
        for (int64_t i = 0; i < c.out; ++i) wanted_db[i] += db0[i];
        expect_close(sum_dw, wanted_dw, "dweight added");
        expect_close(sum_db, wanted_db, "dbias added");
      }
  }
}

INSTANTIATE_TEST_SUITE_P(, LinearTest, ::testing::ValuesIn(kLinearCases), [](const auto& tested) {
  const LinearCase& c = tested.param;
  return fmt::format("n{}_{}x{}x{}to{}{}", c.n, c.h, c.w, c.c, c.out, c.relu ? "_relu" : "");
});

TEST(LinearPlan, RefusesMoreSamplesThanDeclared) {
  const auto device = make_cpu_device();
  const auto ops = make_cpu_ops(*device, {});
  const int64_t sizes[] = {4};
  const auto linear = ops->linear({.in_features = 3, .out_features = 2, .input_format = {}}, sizes);
  Owned x({5, {1, 1, 3}}, {}), y({5, {1, 1, 2}}, linear->output_format());
  EXPECT_THROW(linear->forward(x.tensor(), y.tensor()), Error);
}

}  // namespace
}  // namespace ddp::testing
