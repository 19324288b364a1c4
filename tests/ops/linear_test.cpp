#include "tests/ops/layer.h"

namespace ddp::testing {
namespace {

struct LinearCase {
  int64_t n, h, w, c, out;
  bool relu = false;
  On on = On::every;
  int64_t positions = 1;  // more than 1: h * w
  bool dense = false, bias = true;
};

const LinearCase kLinearCases[] = {{8, 4, 4, 50, 128, true},
                                   {128, 1, 1, 128, 10},
                                   {17, 2, 3, 5, 7, true},
                                   {1, 1, 1, 1, 1},
                                   {5, 3, 1, 3, 23, true},
                                   {48, 1, 1, 64, 12},
                                   {20, 1, 1, 512, 10},
                                   {3, 2, 2, 16, 9, true},
                                   {33, 1, 1, 24, 6, true},
                                   {1, 1, 1, 800, 128, true},
                                   {1, 1, 1, 128, 10},
                                   {5, 2, 2, 16, 9, true, On::every, 1, false, false},  // without a bias
                                   {17, 1, 1, 24, 7, false, On::every, 1, true, false},
                                   {9, 2, 3, 5, 8, true, On::every, 1, true},
                                   {3, 1, 5, 24, 40, true, On::every, 5},
                                   {2, 7, 7, 40, 17, false, On::every, 49, true, false},
                                   {96, 1, 1, 800, 128, true, On::gpu},
                                   {256, 1, 1, 800, 128, true, On::gpu},
                                   {256, 1, 1, 128, 10, false, On::gpu},
                                   {64, 1, 1, 1024, 512, true, On::gpu}};

std::string name_of(const LinearCase& c) {
  return fmt::format("n{}_{}x{}x{}to{}{}{}{}{}", c.n, c.h, c.w, c.c, c.out, c.relu ? "_relu" : "",
                     c.positions > 1 ? "_positions" : "", c.dense ? "_dense" : "", c.bias ? "" : "_nobias");
}

class Linear : public LayerTest<LinearCase> {};
INSTANTIATE_TEST_SUITE_P(, Linear, on_each_backend(kLinearCases), kCaseName);

TEST_P(Linear, AgreesWithTheReference) {
  const bool dense = c.dense || c.positions > 1;
  if (dense && !convolves(backend)) GTEST_SKIP() << "a forced set convolves in f32 only";
  LinearDesc desc{.in_features = c.h * c.w * c.c / c.positions,
                  .out_features = c.out,
                  .input_format = {},
                  .positions = c.positions,
                  .dense = c.dense,
                  .bias = c.bias,
                  .relu = c.relu};
  const int64_t sizes[] = {c.n, c.n + 3};
  const auto plain = reference->linear(desc, {});
  const ImageShape output = c.positions > 1 ? ImageShape{c.h, c.w, c.out} : ImageShape{1, 1, c.out};
  // A dense layer is a convolution in bf16, where weights are bf16 too.
  const DType weights = dense ? type : backend.parameters;
  const LayerResults results = results_of(*plain, {c.n, {c.h, c.w, c.c}}, {c.n, output},
                                          rounded(random_values(desc.in_features * c.out, 2), weights),
                                          rounded(random_values(c.out, 3), backend.parameters), c.bias, c.bias);
  each_setup(dense ? std::vector<Format>{{}} : backend.linear_formats, {0}, [&] {
    desc.input_format = format;
    expect_agreement(*ops->linear(desc, sizes), results, format, {backend.products});
  });
}

// Where parameters are frozen, the other results have the same bits.
class LinearFrozen : public BackendTest {};
INSTANTIATE_TEST_SUITE_P(, LinearFrozen, ::testing::ValuesIn(backends_where(is_compared)), kBackendName);

TEST_P(LinearFrozen, ComputesOnlyTheOtherGradients) {
  const Shape in{9, {2, 2, 5}}, out{9, {1, 1, 7}};
  const int64_t sizes[] = {9};
  const WeightsOnDevice w(*device, rounded(random_values(140, 2), backend.parameters)), b(*device, Values(7, 0.1f));
  for (const bool relu : {false, true})
    each_setup(backend.linear_formats, {0}, [&] {
      const auto results_with = [&](bool weight, bool bias) {
        const auto linear = ops->linear({.in_features = 20,
                                         .out_features = 7,
                                         .input_format = format,
                                         .bias_gradient = bias,
                                         .weight_gradient = weight,
                                         .relu = relu},
                                        sizes);
        const Format to = linear->output_format();
        const TensorOnDevice x = filled(in, random(in.elements(), 1)), dx = unwritten(in), y(*device, out, to, type),
                             dy(*device, out, to, type, random(out.elements(), 3));
        const auto dw = on_device(Values(140)), db = on_device(Values(7));
        linear->bind(w.data(), b.data());
        linear->forward(x.tensor(), y.tensor());
        linear->backward_weight(x.tensor(), y.tensor(), dy.tensor(), weight ? dw.data() : nullptr,
                                bias ? db.data() : nullptr, Gradient::overwrite);
        linear->backward_input(dy.tensor(), dx.tensor());
        return std::vector{dy.values(), dx.values(), dw.values(), db.values()};
      };
      const auto whole = results_with(true, true);
      EXPECT_EQ(results_with(false, true), (std::vector{whole[0], whole[1], Values(140), whole[3]}));
      EXPECT_EQ(results_with(true, false), (std::vector{whole[0], whole[1], whole[2], Values(7)}));
      EXPECT_EQ(results_with(false, false), (std::vector{whole[0], whole[1], Values(140), Values(7)}));
    });
}

class LinearNan : public BackendTest {};
INSTANTIATE_TEST_SUITE_P(, LinearNan, ::testing::ValuesIn(backends_where(is_compared)), kBackendName);

// cuBLASLt does not say what its ReLU makes of NaN.
TEST_P(LinearNan, StaysNan) {
  const Shape in{9, {2, 2, 5}}, out{9, {1, 1, 7}};
  const int64_t sizes[] = {9};
  Values x = random(in.elements(), 1), of_reference(out.elements());
  x[3 * 20 + 4] = NAN;
  LinearDesc desc{.in_features = 20, .out_features = 7, .input_format = {}, .relu = !backend.cuda()};
  const Values w = rounded(random_values(140, 2), backend.parameters), b(7);
  const auto plain = reference->linear(desc, {});
  plain->bind({w.data()}, {b.data()});
  plain->forward(on_host(x, in), on_host(of_reference, out));
  EXPECT_EQ(count_nans(of_reference), 7);
  const WeightsOnDevice aw(*device, w), ab(*device, b);
  each_setup(backend.linear_formats, {0}, [&] {
    desc.input_format = format;
    const auto linear = ops->linear(desc, sizes);
    const Format to = linear->output_format();
    const TensorOnDevice ax = filled(in, x), ay(*device, out, to, type),
                         ady(*device, out, to, type, Values(out.elements(), 1));
    const auto dw = unwritten(140), db = unwritten(7);
    linear->bind(aw.data(), ab.data());
    linear->forward(ax.tensor(), ay.tensor());
    linear->backward_weight(ax.tensor(), ay.tensor(), ady.tensor(), dw.data(), db.data(), Gradient::overwrite);
    const Values y = ay.values(), g = ady.values(), gradients = dw.values();
    for (int64_t i = 0; i < out.elements(); ++i) ASSERT_EQ(std::isnan(y[i]), i / 7 == 3) << i;
    for (int64_t i = 3 * 7; i < 4 * 7; ++i) ASSERT_EQ(g[i], 1) << i;
    for (int64_t i = 0; i < 140; ++i) ASSERT_EQ(std::isnan(gradients[i]), i % 20 == 4) << i;
  });
}

}  // namespace
}  // namespace ddp::testing
