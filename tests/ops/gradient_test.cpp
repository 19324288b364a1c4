// The reference's own gradients against central differences of a double loss, sum(dy * y).
#include "tests/ops/rig.h"

namespace ddp::testing {
namespace {

double dot(const Values& a, const Values& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += static_cast<double>(a[i]) * b[i];
  return sum;
}

// d loss / d values[i] for all i. Powers of two as steps, so that the perturbed floats are exact.
template <class Loss>
Values differences(Values& values, Loss&& loss) {
  constexpr float kStep = 1.0f / 64;
  Values gradient(values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    const float v = values[i];
    values[i] = v + kStep;
    const double up = loss(), high = values[i];
    values[i] = v - kStep;
    const double down = loss(), low = values[i];
    values[i] = v;
    gradient[i] = static_cast<float>((up - down) / (high - low));
  }
  return gradient;
}

TEST(ReferenceGradient, ConvolutionMatchesFiniteDifferences) {
  const auto device = make_cpu_device();
  const auto ops = make_reference_ops(*device);
  for (const Window2d window : {Window2d{3, 1, 0}, Window2d{3, 2, 1}, Window2d{1, 1, 0}, Window2d{5, 1, 2}}) {
    const Conv2dDesc desc{.input = {6, 5, 2}, .input_format = {}, .out_channels = 3, .window = window};
    const Shape in{2, desc.input}, out{2, conv2d_output(desc)};
    Values x = random_values(in.elements(), 1), w = random_values(3 * window.kernel * window.kernel * 2, 2),
           b = random_values(3, 3), dy = random_values(out.elements(), 4), y(out.elements()), dx(x), dw(w), db(b);
    const auto conv = ops->conv2d(desc, {});
    conv->bind(w.data(), b.data());
    const auto loss = [&] {
      conv->forward({x.data(), in, {}}, {y.data(), out, {}});
      return dot(y, dy);
    };
    loss();
    conv->backward_weight({x.data(), in, {}}, {y.data(), out, {}}, {dy.data(), out, {}}, dw.data(), db.data(),
                          Gradient::overwrite);
    conv->backward_input({dy.data(), out, {}}, {dx.data(), in, {}});
    expect_close(dw, differences(w, loss), "dweight", 1e-4);
    expect_close(db, differences(b, loss), "dbias", 1e-4);
    expect_close(dx, differences(x, loss), "dx", 1e-4);
  }
}

TEST(ReferenceGradient, FusedReluMatchesFiniteDifferences) {
  const auto device = make_cpu_device();
  const auto ops = make_reference_ops(*device);
  const LinearDesc desc{.in_features = 4, .out_features = 6, .input_format = {}, .relu = true};
  const Shape in{3, {1, 1, 4}}, out{3, {1, 1, 6}};
  // Weights small beside biases of either sign: no output is near the kink.
  Values x = random_values(12, 1), w = random_values(24, 2), b = {1, -1, 1, -1, 1, 1}, dy = random_values(18, 4), y(18),
         dx(x), dw(w), db(b);
  for (float& v : w) v *= 0.2f;
  const auto linear = ops->linear(desc, {});
  linear->bind(w.data(), b.data());
  const auto loss = [&] {
    linear->forward({x.data(), in, {}}, {y.data(), out, {}});
    return dot(y, dy);
  };
  loss();
  linear->backward_weight({x.data(), in, {}}, {y.data(), out, {}}, {dy.data(), out, {}}, dw.data(), db.data(),
                          Gradient::overwrite);
  linear->backward_input({dy.data(), out, {}}, {dx.data(), in, {}});
  expect_close(dw, differences(w, loss), "dweight", 1e-4);
  expect_close(db, differences(b, loss), "dbias", 1e-4);
  expect_close(dx, differences(x, loss), "dx", 1e-4);
}

TEST(ReferenceGradient, PoolingMatchesFiniteDifferences) {
  const auto device = make_cpu_device();
  const auto ops = make_reference_ops(*device);
  for (const int64_t kernel : {2, 3}) {
    const AvgPool2dDesc desc{{7, 6, 2}, {}, kernel, 2};
    const Shape in{2, desc.input}, out{2, avg_pool2d_output(desc)};
    Values x = random_values(in.elements(), 1), dy = random_values(out.elements(), 2), y(out.elements()), dx(x);
    const auto pool = ops->avg_pool2d(desc, {});
    pool->backward({dy.data(), out, {}}, {dx.data(), in, {}});
    expect_close(dx,
                 differences(x,
                             [&] {
                               pool->forward({x.data(), in, {}}, {y.data(), out, {}});
                               return dot(y, dy);
                             }),
                 "dx", 1e-4);
  }
}

TEST(ReferenceGradient, SoftmaxMatchesFiniteDifferences) {
  const auto device = make_cpu_device();
  const auto ops = make_reference_ops(*device);
  const Shape shape{1, {1, 1, 5}};
  Values z = random_values(5, 1), dz(5);
  const int32_t labels[] = {3};
  float stats[2];
  ops->softmax_cross_entropy_backward({z.data(), shape, {}}, {.labels = labels, .size = 1}, 1, {dz.data(), shape, {}},
                                      stats);
  expect_close(dz,
               differences(z,
                           [&] {
                             ops->softmax_cross_entropy({z.data(), shape, {}}, {.labels = labels, .size = 1}, stats);
                             return static_cast<double>(stats[0]);
                           }),
               "dlogits", 1e-3);
}

}  // namespace
}  // namespace ddp::testing
