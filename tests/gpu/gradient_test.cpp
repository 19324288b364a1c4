// Compares the gradients of the GPU ops in fp32 with central differences of sum(dy * y). The host sums in double.
#include "tests/gpu/fixture.h"

namespace ddp::testing {
namespace {

constexpr double kTolerance = 1e-2;

double dot(const Values& a, const Values& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += static_cast<double>(a[i]) * b[i];
  return sum;
}

// d loss / d values[i] for all i. The step is a power of two, so the perturbed floats are exact.
template <class Loss>
Values differences(Values values, const Loss& loss) {
  constexpr float kStep = 1.0f / 16;
  Values gradient(values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    const float v = values[i], high = v + kStep, low = v - kStep;
    values[i] = high;
    const double up = loss(values);
    values[i] = low;
    const double down = loss(values);
    values[i] = v;
    gradient[i] = static_cast<float>((up - down) / (static_cast<double>(high) - low));
  }
  return gradient;
}

class GradientOnGpu : public ::testing::Test {
 protected:
  const Gpu gpu{Precision::fp32};
  Device& device = *gpu.device;

  // Compares the gradients of a convolution or a linear layer.
  template <class Op>
  void expect_gradients(Op& op, const Shape& in, const Shape& out, const Values& x, const Values& w, const Values& b) {
    const Values dy = random_values(out.elements(), 4);
    const auto loss = [&](const Values& at_x, const Values& at_w, const Values& at_b) {
      const OnGpu ax(device, at_x), aw(device, at_w), ab(device, at_b), ay(device, out.elements());
      op.bind(aw.f32(), ab.f32());
      op.forward(ax.tensor(in), ay.tensor(out));
      return dot(ay.values(), dy);
    };
    const Values expected_dw = differences(w, [&](const Values& v) { return loss(x, v, b); });
    const Values expected_db = differences(b, [&](const Values& v) { return loss(x, w, v); });
    const Values expected_dx = differences(x, [&](const Values& v) { return loss(v, w, b); });

    const OnGpu ax(device, x), aw(device, w), ab(device, b), ay(device, out.elements()), ady(device, dy);
    const OnGpu dw(device, std::ssize(w)), db(device, std::ssize(b)), dx(device, in.elements());
    op.bind(aw.f32(), ab.f32());
    op.forward(ax.tensor(in), ay.tensor(out));
    op.backward_weight(ax.tensor(in), ay.tensor(out), ady.tensor(out), dw.f32(), db.f32(), Gradient::overwrite);
    op.backward_input(ady.tensor(out), dx.tensor(in));
    expect_agrees(dw.values(), expected_dw, "dweight", kTolerance);
    expect_agrees(db.values(), expected_db, "dbias", kTolerance);
    expect_agrees(dx.values(), expected_dx, "dx", kTolerance);
  }
};

TEST_F(GradientOnGpu, Convolution) {
  for (const Window2d window :
       {Window2d{3, 1, 0}, Window2d{3, 2, 1}, Window2d{1, 1, 0}, Window2d{5, 1, 2}, Window2d{2, 1, {0, 1, 1, 0}}}) {
    const Conv2dDesc desc{.input = {6, 5, 2}, .input_format = {}, .out_channels = 3, .window = window};
    const Shape in{2, desc.input}, out{2, conv2d_output(desc)};
    const int64_t sizes[] = {2};
    const auto conv = gpu.ops->conv2d(desc, sizes);
    expect_gradients(*conv, in, out, random_values(in.elements(), 1),
                     random_values(6 * window.kernel * window.kernel, 2), random_values(3, 3));
  }
}

TEST_F(GradientOnGpu, LinearWithFusedRelu) {
  const LinearDesc desc{.in_features = 4, .out_features = 6, .input_format = {}, .relu = true};
  const Shape in{3, {1, 1, 4}}, out{3, {1, 1, 6}};
  // Weights are small and biases are large with both signs, so no output is near the kink of the ReLU.
  Values w = random_values(24, 2);
  for (float& v : w) v *= 0.15f;
  const int64_t sizes[] = {3};
  const auto linear = gpu.ops->linear(desc, sizes);
  expect_gradients(*linear, in, out, random_values(12, 1), w, {1, -1, 1, -1, 1, 1});
}

TEST_F(GradientOnGpu, Pooling) {
  using enum Pool2dDesc::Kind;
  for (const auto& [kind, window] : {std::pair{average, Window2d{2, 2}},
                                     {average, Window2d{3, 2}},
                                     {maximum, Window2d{2, 2}},
                                     {maximum, Window2d{3, 2, 1}},
                                     {global_average, {}}}) {
    const Pool2dDesc desc{kind, {7, 6, 2}, {}, window};
    const Shape in{2, desc.input}, out{2, pool2d_output(desc)};
    // Values are 1/8 apart in a scrambled order, so no step changes the maximum of a window.
    Values x(in.elements());
    for (int64_t i = 0; i < in.elements(); ++i) x[i] = static_cast<float>(i * 37 % in.elements()) / 4;
    const Values dy = random_values(out.elements(), 2);
    const int64_t sizes[] = {2};
    const auto pool = gpu.ops->pool2d(desc, sizes);
    const OnGpu on_gpu(device, x), y(device, out.elements()), ady(device, dy), adx(device, in.elements());
    pool->forward(on_gpu.tensor(in), y.tensor(out));
    pool->backward(on_gpu.tensor(in), y.tensor(out), ady.tensor(out), adx.tensor(in));
    const Values expected = differences(x, [&](const Values& v) {
      const OnGpu ax(device, v), ay(device, out.elements());
      pool->forward(ax.tensor(in), ay.tensor(out));
      return dot(ay.values(), dy);
    });
    expect_agrees(adx.values(), expected, "dx", kTolerance);
  }
}

TEST_F(GradientOnGpu, BatchNorm) {
  const BatchNormDesc desc{.input = {4, 3, 3}, .format = {}};
  const Shape shape{6, desc.input};
  const float count = 6 * 4 * 3;
  Values x = random_values(shape.elements(), 1);
  for (float& v : x) v *= 4;
  const Values dy = random_values(shape.elements(), 2), scale = random_values(3, 3), shift = random_values(3, 4);
  const int64_t sizes[] = {6};
  const auto norm = gpu.ops->batch_norm(desc, sizes);
  const auto loss = [&](const Values& at_x, const Values& at_scale, const Values& at_shift) {
    const OnGpu ax(device, at_x), ascale(device, at_scale), ashift(device, at_shift), sums(device, 6),
        ay(device, shape.elements());
    norm->bind(ascale.f32(), ashift.f32());
    norm->sum(ax.tensor(shape), nullptr, sums.f32());
    norm->forward(ax.tensor(shape), {}, ay.tensor(shape), nullptr, sums.f32(), count);
    return dot(ay.values(), dy);
  };
  const Values expected_dscale = differences(scale, [&](const Values& v) { return loss(x, v, shift); });
  const Values expected_dshift = differences(shift, [&](const Values& v) { return loss(x, scale, v); });
  const Values expected_dx = differences(x, [&](const Values& v) { return loss(v, scale, shift); });

  loss(x, scale, shift);  // the forward pass that the gradients belong to
  const OnGpu ax(device, x), ascale(device, scale), ashift(device, shift), ady(device, dy), t(device, 6);
  norm->bind(ascale.f32(), ashift.f32());
  norm->backward_sum(ax.tensor(shape), {}, {}, ady.tensor(shape), t.f32());
  norm->backward(ax.tensor(shape), ady.tensor(shape), ady.tensor(shape), t.f32(), count);
  const Values gradients = t.values();
  expect_agrees({gradients.begin(), gradients.begin() + 3}, expected_dshift, "dshift", kTolerance);
  expect_agrees({gradients.begin() + 3, gradients.end()}, expected_dscale, "dscale", kTolerance);
  expect_agrees(ady.values(), expected_dx, "dx", kTolerance);
}

TEST_F(GradientOnGpu, SoftmaxCrossEntropy) {
  const Shape shape{1, {1, 1, 5}};
  const Values z = random_values(5, 1);
  const Buffer labels = uploaded(device, std::vector<int32_t>{3});
  const DeviceBatch batch{.labels = labels.as<int32_t>(), .size = 1};
  const OnGpu logits(device, z), dz(device, 5), stats(device, 2);
  gpu.ops->softmax_cross_entropy_backward(logits.tensor(shape), batch, 1, 0, dz.tensor(shape), stats.f32(),
                                          Gradient::overwrite);
  const Values expected = differences(z, [&](const Values& v) {
    const OnGpu at(device, v);
    gpu.ops->softmax_cross_entropy(at.tensor(shape), batch, stats.f32());
    return static_cast<double>(stats.values()[0]);
  });
  expect_agrees(dz.values(), expected, "dlogits", kTolerance);
}

}  // namespace
}  // namespace ddp::testing
