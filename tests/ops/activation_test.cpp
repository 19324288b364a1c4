#include "tests/ops/reference/activation.h"

#include "tests/ops/backend.h"

namespace ddp::testing {
namespace {

using ActivationKind = Activation::Kind;

constexpr Activation kActivations[] = {
    {ActivationKind::relu},       {ActivationKind::relu6},        {ActivationKind::leaky_relu, 0.2f},
    {ActivationKind::sigmoid},    {ActivationKind::hard_sigmoid}, {ActivationKind::silu},
    {ActivationKind::hard_swish}, {ActivationKind::gelu},         {ActivationKind::gelu_tanh},
    {ActivationKind::tanh}};

class Activations : public BackendTest {
 protected:
  // Each value to rounding. `least`: the absolute error that a value of magnitude 1 has in f32.
  void expect_values(const Values& actual, const Values& expected, double least, const char* what) const {
    ASSERT_EQ(actual.size(), expected.size());
    const double relative = type == DType::bf16 ? 0x1p-8 : 6e-7;
    for (size_t i = 0; i < actual.size(); ++i)
      ASSERT_LE(std::abs(static_cast<double>(actual[i]) - expected[i]), relative * std::abs(expected[i]) + least)
          << what << " " << i;
  }
};
INSTANTIATE_TEST_SUITE_P(, Activations, ::testing::ValuesIn(backends_where(is_compared)), kBackendName);

// From -12 to 12 in steps of 3/256, with the kinks, on a shape with padding in each format. Out of place and in place.
TEST_P(Activations, EqualTheFormulas) {
  const Shape shape{6, {3, 6, 19}};
  const int64_t count = shape.elements();
  Values x(count), y(count), dx(count);
  for (int64_t i = 0; i < count; ++i) x[i] = static_cast<float>(i * 1021 % count - count / 2) * (3.0f / 256);
  x = rounded(x, type);
  const Values dy = random(count, 1);
  for (const Activation& f : kActivations) {
    SCOPED_TRACE(static_cast<int>(f.kind));
    for (int64_t i = 0; i < count; ++i) {
      y[i] = static_cast<float>(reference::value_of(f, x[i]));
      dx[i] = static_cast<float>(dy[i] * reference::derivative_at(f, x[i]));
    }
    each_setup(backend.formats, backend.offsets, [&] {
      const float beside = format.kind == Format::Kind::batch_interleaved ? 3000.0f : 0.0f;
      const auto ax = filled(shape, x, beside), ay = unwritten(shape), ady = filled(shape, dy), adx = unwritten(shape),
                 same_x = filled(shape, x, beside), same_dy = filled(shape, dy);
      ops->activation(f, ax.tensor(), ay.tensor());
      ops->activation_backward(f, ax.tensor(), ady.tensor(), adx.tensor());
      ops->activation_backward(f, same_x.tensor(), same_dy.tensor(), same_dy.tensor());
      ops->activation(f, same_x.tensor(), same_x.tensor());
      const auto actual_y = ay.loaded(), actual_dx = adx.loaded();
      expect_values(actual_y.dense, y, 1e-9, "y");
      expect_values(actual_dx.dense, dx, 4e-7, "dx");
      EXPECT_EQ(same_x.values(), actual_y.dense) << "in place";
      EXPECT_EQ(same_dy.values(), actual_dx.dense) << "in place";
      expect_zero(actual_dx.padding, "dx");
      if (format.kind == Format::Kind::blocked_channels)
        expect_zero(actual_y.padding, "y");
      else
        expect_finite(actual_y.padding, "y");
    });
  }
}

TEST_P(Activations, LargeArgumentsStayFiniteAndNanStaysNan) {
  Values x = {0, -0.0f, 1e-30f, 20, 88, 100, 1e4f, 1e19f, 1e30f, 3e38f};
  for (size_t i = x.size(); i-- > 2;) x.push_back(-x[i]);
  x = rounded(x, type);
  const int64_t finite = std::ssize(x);
  x.push_back(NAN);
  const Shape shape{1, {1, 1, finite + 1}};
  for (const Activation& f : kActivations) {
    SCOPED_TRACE(static_cast<int>(f.kind));
    Values expected_y(finite), expected_dx(finite);
    for (int64_t i = 0; i < finite; ++i) {
      expected_y[i] = static_cast<float>(reference::value_of(f, x[i]));
      expected_dx[i] = static_cast<float>(reference::derivative_at(f, x[i]));
    }
    each_setup([&] {
      const auto ax = filled(shape, x), ay = unwritten(shape), ady = filled(shape, Values(finite + 1, 1)),
                 adx = unwritten(shape);
      ops->activation(f, ax.tensor(), ay.tensor());
      ops->activation_backward(f, ax.tensor(), ady.tensor(), adx.tensor());
      const Values y = ay.values(), dx = adx.values();
      expect_values({y.begin(), y.end() - 1}, expected_y, 1e-9, "y");
      expect_values({dx.begin(), dx.end() - 1}, expected_dx, 1e-7, "dx");
      EXPECT_TRUE(std::isnan(y[finite]));
    });
  }
}

}  // namespace
}  // namespace ddp::testing
