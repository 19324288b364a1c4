// Compares the gradients of the reference with central differences of the loss sum(dy * y), in double.
#include "tests/ops/fixture.h"

namespace ddp::testing {
namespace {

double dot(const Values& a, const Values& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += static_cast<double>(a[i]) * b[i];
  return sum;
}

// d loss / d values[i] for all i. Steps are powers of two, so the perturbed floats are exact.
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
  // Weights are small and biases are large with both signs, so no output is near the kink of the ReLU.
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
  using Kind = Pool2dDesc::Kind;
  const auto device = make_cpu_device();
  const auto ops = make_reference_ops(*device);
  for (const Pool2dDesc& desc :
       {Pool2dDesc{Kind::average, {7, 6, 2}, {}, {2, 2}}, Pool2dDesc{Kind::average, {7, 6, 2}, {}, {3, 2}},
        Pool2dDesc{Kind::maximum, {7, 6, 2}, {}, {2, 2}}, Pool2dDesc{Kind::maximum, {7, 6, 2}, {}, {3, 2, 1}},
        Pool2dDesc{Kind::maximum, {6, 6, 2}, {}, {3, 2, {0, 0, 1, 1}}},
        Pool2dDesc{Kind::global_average, {7, 6, 2}, {}, {}}}) {
    const Shape in{2, desc.input}, out{2, pool2d_output(desc)};
    Values x = random_values(in.elements(), 1), dy = random_values(out.elements(), 2), y(out.elements()), dx(x);
    // All values are so far apart that no step changes the maximum of a window.
    for (size_t i = 0; desc.kind == Kind::maximum && i < x.size(); ++i)
      x[i] = static_cast<float>((i * 37) % x.size()) / 16;
    const auto pool = ops->pool2d(desc, {});
    const auto loss = [&] {
      pool->forward({x.data(), in, {}}, {y.data(), out, {}});
      return dot(y, dy);
    };
    loss();
    pool->backward({x.data(), in, {}}, {y.data(), out, {}}, {dy.data(), out, {}}, {dx.data(), in, {}});
    expect_close(dx, differences(x, loss), "dx", 1e-4);
  }
}

// Skip, scale and shift keep every output far from the kink of the ReLU.
TEST(ReferenceGradient, BatchNormMatchesFiniteDifferences) {
  const auto device = make_cpu_device();
  const auto ops = make_reference_ops(*device);
  for (const bool relu : {false, true}) {
    const Shape shape{3, {2, 3, 4}};
    const int64_t count = shape.elements();
    const float samples = 18;
    Values x = random_values(count, 1), skip(count), scale = {0.5f, -0.25f, 0.75f, 0.5f}, shift = random_values(4, 4),
           dy = random_values(count, 5), y(count), dx(count), sums(8), backward_sums(8);
    for (int64_t i = 0; i < count; ++i) skip[i] = i % 3 == 0 ? -5 : 5;
    const Values center = {0.25f, 0, -1, 0.5f}, masked = [&] {
      Values kept = dy;
      for (int64_t i = 0; relu && i < count; i += 3) kept[i] = 0;
      return kept;
    }();
    const auto norm = ops->batch_norm({.input = shape.image, .format = {}, .relu = relu, .add = true}, {});
    norm->bind(scale.data(), shift.data());
    const auto tensor = [&](Values& values) { return Tensor{values.data(), shape, {}}; };
    const auto loss = [&] {
      norm->sum(tensor(x), center.data(), sums.data());
      norm->forward(tensor(x), tensor(skip), tensor(y), center.data(), sums.data(), samples);
      return dot(y, dy);
    };
    const Values dx_expected = differences(x, loss), dscale = differences(scale, loss),
                 dshift = differences(shift, loss), dskip = differences(skip, loss);
    loss();
    // The gradient comes in two parts, which the op adds.
    Values gradient(count, 0.5f), more = dy;
    for (float& v : more) v -= 0.5f;
    norm->backward_sum(tensor(x), tensor(y), tensor(more), tensor(gradient), backward_sums.data());
    norm->backward(tensor(x), tensor(gradient), tensor(dx), backward_sums.data(), samples);
    expect_close(gradient, masked, "dy", 1e-6);
    expect_close(gradient, dskip, "dskip", 1e-4);
    expect_close({backward_sums.begin(), backward_sums.begin() + 4}, dshift, "dshift", 1e-4);
    expect_close({backward_sums.begin() + 4, backward_sums.end()}, dscale, "dscale", 1e-4);
    expect_close(dx, dx_expected, "dx", 1e-3);
  }
}

TEST(ReferenceGradient, SoftmaxMatchesFiniteDifferences) {
  const auto device = make_cpu_device();
  const auto ops = make_reference_ops(*device);
  const Shape shape{1, {1, 1, 5}};
  for (const float smoothing : {0.0f, 0.2f}) {
    Values z = random_values(5, 1), dz(5), unused(5);
    const int32_t labels[] = {3};
    float stats[2];
    const auto run = [&](Values& to) {
      ops->softmax_cross_entropy_backward({z.data(), shape, {}}, {.labels = labels, .size = 1}, 1, smoothing,
                                          {to.data(), shape, {}}, stats, Gradient::overwrite);
      return static_cast<double>(stats[0]);
    };
    run(dz);
    expect_close(dz, differences(z, [&] { return run(unused); }), "dlogits", 1e-3);
  }
}

}  // namespace
}  // namespace ddp::testing
