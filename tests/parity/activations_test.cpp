// Compares activation functions and adaptive average pooling with PyTorch. make_activations.py describes the figures in
// expected/activations.json.
#include "nn/network.h"
#include "ops/cpu/ops.h"
#include "tests/parity/parity.h"

#include <gtest/gtest.h>

namespace ddp::testing {
namespace {

using nlohmann::json;
using Values = std::vector<float>;

Tensor on(Values& values, const Shape& shape) { return {values.data(), shape, {}, DType::f32}; }

void expect_figures(const Values& actual, const json& expected, const std::string& what) {
  ASSERT_EQ(actual.size(), expected.size()) << what;
  for (size_t i = 0; i < actual.size(); ++i)
    EXPECT_NEAR(actual[i], expected[i].get<double>(), 4e-7 * std::max(1.0, std::abs(expected[i].get<double>())))
        << what << " " << i;
}

TEST(ActivationParity, FunctionsMatchPytorch) {
  const auto device = make_cpu_device();
  const auto ops = make_cpu_ops(*device, {});
  const json figures = expected_figures("activations.json");
  auto x = figures.at("x").get<Values>();
  const Shape shape{1, {1, 1, std::ssize(x)}};
  int functions = 0;
  for (int kind = 1; kind <= static_cast<int>(Activation::Kind::tanh); ++kind, ++functions) {
    const Activation f{static_cast<Activation::Kind>(kind)};
    const std::string name = name_of(f.kind);
    const json& expected = figures.at("functions").at(name);
    Values y(x.size()), dy(x.size(), 1);
    ops->activation(f, on(x, shape), on(y, shape));
    ops->activation_backward(f, on(x, shape), on(dy, shape), on(dy, shape));
    expect_figures(y, expected.at("y"), name);
    expect_figures(dy, expected.at("dy_dx"), "derivative of " + name);
  }
  EXPECT_EQ(functions, std::ssize(figures.at("functions")));
}

TEST(ActivationParity, AdaptivePoolsMatchPytorch) {
  const auto device = make_cpu_device();
  const auto ops = make_cpu_ops(*device, {});
  const json figures = expected_figures("activations.json");
  ASSERT_GE(figures.at("pools").size(), 3u);
  for (const json& pool : figures.at("pools")) {
    const Pool2dDesc desc{.kind = Pool2dDesc::Kind::adaptive_average,
                          .input = {pool.at("input")[0], pool.at("input")[1], 1},
                          .format = {},
                          .out_h = pool.at("output")[0],
                          .out_w = pool.at("output")[1]};
    const Shape in{1, desc.input}, out{1, pool2d_output(desc)};
    Values x(in.elements()), y(out.elements()), dy(out.elements()), dx(in.elements());
    for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i * i);
    for (size_t i = 0; i < dy.size(); ++i) dy[i] = static_cast<float>(i + 1);
    const int64_t sizes[] = {1};
    const auto op = ops->pool2d(desc, sizes);
    op->forward(on(x, in), on(y, out));
    op->backward(on(x, in), on(y, out), on(dy, out), on(dx, in));
    expect_figures(y, pool.at("y"), "y of " + pool.dump());
    expect_figures(dx, pool.at("dx"), "dx of " + pool.dump());
  }
}

}  // namespace
}  // namespace ddp::testing
