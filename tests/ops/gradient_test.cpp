// Compares the gradients of the ops, and of the reference ops, with central differences of the loss sum(dy * y). The
// host sums in double.
#include "tests/ops/backend.h"

namespace ddp::testing {
namespace {

double dot(const Values& a, const Values& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += static_cast<double>(a[i]) * b[i];
  return sum;
}

class Gradients : public BackendTest {
 protected:
  // d loss / d values[i] for all i. The step is a power of two, so the perturbed floats are exact.
  template <class Loss>
  Values differences(Values values, const Loss& loss) const {
    Values gradient(values.size());
    for (size_t i = 0; i < values.size(); ++i) {
      const float v = values[i], high = v + backend.gradient_step, low = v - backend.gradient_step;
      values[i] = high;
      const double up = loss(values);
      values[i] = low;
      const double down = loss(values);
      values[i] = v;
      gradient[i] = static_cast<float>((up - down) / (static_cast<double>(high) - low));
    }
    return gradient;
  }

  // Of a convolution or a linear layer.
  template <class Op>
  void expect_gradients(Op& op, const Shape& in, const Shape& out, const Values& x, const Values& w, const Values& b) {
    const Values dy = random_values(out.elements(), 4);
    const auto loss = [&](const Values& at_x, const Values& at_w, const Values& at_b) {
      const auto ax = filled(in, at_x);
      const TensorOnDevice ay(*device, out, op.output_format(), type);
      const WeightsOnDevice aw(*device, at_w), ab(*device, at_b);
      op.bind(aw.data(), ab.data());
      op.forward(ax.tensor(), ay.tensor());
      return dot(ay.values(), dy);
    };
    const Values expected_dw = differences(w, [&](const Values& v) { return loss(x, v, b); });
    const Values expected_db = differences(b, [&](const Values& v) { return loss(x, w, v); });
    const Values expected_dx = differences(x, [&](const Values& v) { return loss(v, w, b); });

    const auto ax = filled(in, x), dx = unwritten(in);
    const TensorOnDevice ay(*device, out, op.output_format(), type), ady(*device, out, op.output_format(), type, dy);
    const WeightsOnDevice aw(*device, w), ab(*device, b);
    const auto dw = unwritten(std::ssize(w)), db = unwritten(std::ssize(b));
    op.bind(aw.data(), ab.data());
    op.forward(ax.tensor(), ay.tensor());
    op.backward_weight(ax.tensor(), ay.tensor(), ady.tensor(), dw.data(), db.data(), Gradient::overwrite);
    op.backward_input(ady.tensor(), dx.tensor());
    expect_within(backend.gradients, dw.values(), expected_dw, "dweight");
    expect_within(backend.gradients, db.values(), expected_db, "dbias");
    expect_within(backend.gradients, dx.values(), expected_dx, "dx");
  }

  const double curved = std::max(backend.gradients, 1e-3);  // the bound where the loss has large third derivatives
};
INSTANTIATE_TEST_SUITE_P(, Gradients, ::testing::ValuesIn(backends_where(is_fp32)), kBackendName);

TEST_P(Gradients, ConvolutionMatchesFiniteDifferences) {
  for (const Window2d window :
       {Window2d{3, 1, 0}, Window2d{3, 2, 1}, Window2d{1, 1, 0}, Window2d{5, 1, 2}, Window2d{2, 1, {0, 1, 1, 0}}}) {
    const Conv2dDesc desc{.input = {6, 5, 2}, .input_format = {}, .out_channels = 3, .window = window};
    const Shape in{2, desc.input}, out{2, conv2d_output(desc)};
    const int64_t sizes[] = {2};
    const auto conv = ops->conv2d(desc, sizes);
    expect_gradients(*conv, in, out, random_values(in.elements(), 1),
                     random_values(6 * window.kernel * window.kernel, 2), random_values(3, 3));
  }
}

TEST_P(Gradients, DenseConvolutionMatchesFiniteDifferences) {
  struct Tested {
    int64_t out, groups;
    Window2d window;
  };
  for (const auto& [out_channels, groups, window] :
       {Tested{3, 1, {1, 1, 0}}, Tested{4, 4, {3, 1, 1}}, Tested{4, 4, {3, 2, 1}}, Tested{4, 4, {3, 2, 2, 2}},
        Tested{4, 4, {5, 1, 2}}, Tested{8, 2, {3, 1, 1}}, Tested{3, 1, {3, 1, 2, 2}}}) {
    const Conv2dDesc desc{.input = {6, 5, 4},
                          .input_format = {},
                          .out_channels = out_channels,
                          .window = window,
                          .groups = groups,
                          .dense = true};
    const Shape in{2, desc.input}, out{2, conv2d_output(desc)};
    const int64_t sizes[] = {2};
    const auto conv = ops->conv2d(desc, sizes);
    expect_gradients(*conv, in, out, random_values(in.elements(), 1),
                     random_values(out_channels * window.kernel * window.kernel * 4 / groups, 2),
                     random_values(out_channels, 3));
  }
}

TEST_P(Gradients, LinearOverPositionsMatchesFiniteDifferences) {
  const LinearDesc desc{.in_features = 4, .out_features = 3, .input_format = {}, .positions = 5, .dense = true};
  const Shape in{2, {1, 5, 4}}, out{2, {1, 5, 3}};
  const int64_t sizes[] = {2};
  const auto linear = ops->linear(desc, sizes);
  expect_gradients(*linear, in, out, random_values(40, 1), random_values(12, 2), random_values(3, 3));
}

TEST_P(Gradients, FusedReluMatchesFiniteDifferences) {
  const LinearDesc desc{.in_features = 4, .out_features = 6, .input_format = {}, .relu = true};
  const Shape in{3, {1, 1, 4}}, out{3, {1, 1, 6}};
  // Weights are small and biases are large with both signs, so no output is near the kink of the ReLU.
  Values w = random_values(24, 2);
  for (float& v : w) v *= 0.15f;
  const int64_t sizes[] = {3};
  const auto linear = ops->linear(desc, sizes);
  expect_gradients(*linear, in, out, random_values(12, 1), w, {1, -1, 1, -1, 1, 1});
}

TEST_P(Gradients, PoolingMatchesFiniteDifferences) {
  using enum Pool2dDesc::Kind;
  for (const Pool2dDesc& desc :
       {Pool2dDesc{average, {7, 6, 2}, {}, {2, 2}}, Pool2dDesc{average, {7, 6, 2}, {}, {3, 2}},
        Pool2dDesc{maximum, {7, 6, 2}, {}, {2, 2}}, Pool2dDesc{maximum, {7, 6, 2}, {}, {3, 2, 1}},
        Pool2dDesc{maximum, {6, 6, 2}, {}, {3, 2, {0, 0, 1, 1}}}, Pool2dDesc{global_average, {7, 6, 2}, {}, {}},
        Pool2dDesc{adaptive_average, {7, 6, 2}, {}, {}, 3, 4}, Pool2dDesc{adaptive_average, {2, 3, 2}, {}, {}, 5, 4}}) {
    const Shape in{2, desc.input}, out{2, pool2d_output(desc)};
    // All values are so far apart that no step changes the maximum of a window.
    Values x = random_values(in.elements(), 1);
    for (size_t i = 0; desc.kind == maximum && i < x.size(); ++i)
      x[i] = static_cast<float>(i * 37 % x.size()) * 4 * backend.gradient_step;
    const Values dy = random_values(out.elements(), 2);
    const int64_t sizes[] = {2};
    const auto pool = ops->pool2d(desc, sizes);
    const Values expected = differences(x, [&](const Values& v) {
      const auto ax = filled(in, v), ay = unwritten(out);
      pool->forward(ax.tensor(), ay.tensor());
      return dot(ay.values(), dy);
    });
    const auto ax = filled(in, x), ay = unwritten(out), ady = filled(out, dy), adx = unwritten(in);
    pool->forward(ax.tensor(), ay.tensor());
    pool->backward(ax.tensor(), ay.tensor(), ady.tensor(), adx.tensor());
    expect_within(backend.gradients, adx.values(), expected, "dx");
  }
}

// Skip, scale and shift keep every output far from the kink of the ReLU.
TEST_P(Gradients, BatchNormMatchesFiniteDifferences) {
  const Shape shape{3, {2, 3, 4}};
  const int64_t count = shape.elements(), sizes[] = {3};
  const float samples = 18;
  const Values scale = {0.5f, -0.25f, 0.75f, 0.5f}, shift = random_values(4, 4), dy = random_values(count, 5);
  Values x = random_values(count, 1), skip(count), more = dy;
  for (float& v : x) v *= 4;
  for (int64_t i = 0; i < count; ++i) skip[i] = i % 3 == 0 ? -5 : 5;
  for (float& v : more) v -= 0.5f;  // the gradient comes in two parts, which the op adds
  const auto center = on_device(Values{0.25f, 0, -1, 0.5f});
  for (const bool relu : {false, true}) {
    const auto norm = ops->batch_norm(
        {.input = shape.image, .format = {}, .activation = relu ? kRelu : Activation{}, .add = true}, sizes);
    const auto loss = [&](const Values& at_x, const Values& at_skip, const Values& at_scale, const Values& at_shift) {
      const auto ax = filled(shape, at_x), askip = filled(shape, at_skip), ay = unwritten(shape);
      const auto ascale = on_device(at_scale), ashift = on_device(at_shift), sums = unwritten(8);
      norm->bind(ascale.data(), ashift.data());
      norm->sum(ax.tensor(), center.data(), sums.data());
      norm->begin_forward(center.data(), sums.data(), samples);
      norm->forward(ax.tensor(), askip.tensor(), ay.tensor());
      return dot(ay.values(), dy);
    };
    const Values expected_dx = differences(x, [&](const Values&v) { return loss(v, skip, scale, shift); }),
                 expected_dskip = differences(skip, [&](const Values&v) { return loss(x, v, scale, shift); }),
                 expected_dscale = differences(scale, [&](const Values&v) { return loss(x, skip, v, shift); }),
                 expected_dshift = differences(shift, [&](const Values&v) { return loss(x, skip, scale, v); });
    const auto ax = filled(shape, x), askip = filled(shape, skip), ay = unwritten(shape),
               gradient = filled(shape, Values(count, 0.5f)), amore = filled(shape, more), dx = unwritten(shape);
    const auto ascale = on_device(scale), ashift = on_device(shift), sums = unwritten(8), t_sums = unwritten(8);
    norm->bind(ascale.data(), ashift.data());
    norm->sum(ax.tensor(), center.data(), sums.data());
    norm->begin_forward(center.data(), sums.data(), samples);
    norm->forward(ax.tensor(), askip.tensor(), ay.tensor());
    norm->backward_sum(ax.tensor(), ay.tensor(), amore.tensor(), gradient.tensor(), t_sums.data(), t_sums.data() + 4);
    norm->begin_backward(t_sums.data(), t_sums.data() + 4, samples);
    norm->backward(ax.tensor(), gradient.tensor(), dx.tensor());
    Values masked = dy;
    for (int64_t i = 0; relu && i < count; i += 3) masked[i] = 0;
    const Values t = t_sums.values();
    expect_close(gradient.values(), masked, "dy", 1e-6);
    expect_within(backend.gradients, gradient.values(), expected_dskip, "dskip");
    expect_within(backend.gradients, {t.begin(), t.begin() + 4}, expected_dshift, "dshift");
    expect_within(backend.gradients, {t.begin() + 4, t.end()}, expected_dscale, "dscale");
    expect_within(curved, dx.values(), expected_dx, "dx");
  }
}

// No argument is near a kink.
TEST_P(Gradients, ActivationsMatchFiniteDifferences) {
  using enum Activation::Kind;
  const Values x = {-7, -4.25f, -3.5f, -2.5f, -1.25f, -0.375f, 0.25f, 1, 1.5f, 2.75f, 3.25f, 4.5f, 5.5f, 6.5f};
  const Shape shape{2, {1, 1, 7}};
  const Values dy = random_values(shape.elements(), 1);
  for (const Activation::Kind kind :
       {relu, relu6, leaky_relu, sigmoid, hard_sigmoid, silu, hard_swish, gelu, gelu_tanh, Activation::Kind::tanh}) {
    SCOPED_TRACE(static_cast<int>(kind));
    const Activation f{kind, 0.3f};
    const Values expected = differences(x, [&](const Values& v) {
      const auto ax = filled(shape, v), ay = unwritten(shape);
      ops->activation(f, ax.tensor(), ay.tensor());
      return dot(ay.values(), dy);
    });
    const auto ax = filled(shape, x), ady = filled(shape, dy), adx = unwritten(shape);
    ops->activation_backward(f, ax.tensor(), ady.tensor(), adx.tensor());
    expect_within(curved, adx.values(), expected, "dx");
  }
}

TEST_P(Gradients, ActivatedBatchNormMatchesFiniteDifferences) {
  using enum Activation::Kind;
  const Shape shape{3, {2, 3, 4}};
  const int64_t count = shape.elements(), sizes[] = {3};
  const float samples = 18;
  const Values scale = {0.5f, -0.25f, 0.75f, 0.5f}, shift = random_values(4, 4), dy = random_values(count, 5);
  Values x = random_values(count, 1);
  for (float& v : x) v *= 4;
  const auto sums = unwritten(8), t = unwritten(8), mean = on_device(random_values(4, 6)),
             variance = on_device(Values{1, 2, 0.5f, 4});
  for (const Activation::Kind kind : {sigmoid, silu, gelu, gelu_tanh, Activation::Kind::tanh}) {
    SCOPED_TRACE(static_cast<int>(kind));
    const auto norm = ops->batch_norm({.input = shape.image, .format = {}, .activation = {kind}}, sizes);
    const auto forward = [&](const TensorOnDevice& ax, const TensorOnDevice& ay) {
      norm->sum(ax.tensor(), nullptr, sums.data());
      norm->begin_forward(nullptr, sums.data(), samples);
      norm->forward(ax.tensor(), {}, ay.tensor());
    };
    const auto loss = [&](const Values& at_x, const Values& at_scale, const Values& at_shift) {
      const auto ax = filled(shape, at_x), ay = unwritten(shape);
      const auto ascale = on_device(at_scale), ashift = on_device(at_shift);
      norm->bind(ascale.data(), ashift.data());
      forward(ax, ay);
      return dot(ay.values(), dy);
    };
    const auto evaluated = [&](const Values& at_x) {
      const auto ax = filled(shape, at_x), ay = unwritten(shape);
      const auto ascale = on_device(scale), ashift = on_device(shift);
      norm->bind(ascale.data(), ashift.data());
      norm->evaluate(ax.tensor(), {}, ay.tensor(), mean.data(), variance.data());
      return dot(ay.values(), dy);
    };
    const Values expected_dx = differences(x, [&](const Values&v) { return loss(v, scale, shift); }),
                 expected_dscale = differences(scale, [&](const Values&v) { return loss(x, v, shift); }),
                 expected_dshift = differences(shift, [&](const Values&v) { return loss(x, scale, v); }),
                 expected_evaluated = differences(x, evaluated);
    const auto ax = filled(shape, x), ay = unwritten(shape), ady = filled(shape, dy), adx = unwritten(shape),
               edy = filled(shape, dy), edx = unwritten(shape);
    const auto ascale = on_device(scale), ashift = on_device(shift);
    norm->bind(ascale.data(), ashift.data());
    forward(ax, ay);
    norm->backward_sum(ax.tensor(), {}, {}, ady.tensor(), t.data(), t.data() + 4);
    norm->begin_backward(t.data(), t.data() + 4, samples);
    norm->backward(ax.tensor(), ady.tensor(), adx.tensor());
    norm->evaluate_backward(ax.tensor(), {}, {}, edy.tensor(), edx.tensor(), mean.data(), variance.data());
    const Values gradients = t.values();
    expect_within(curved, {gradients.begin(), gradients.begin() + 4}, expected_dshift, "dshift");
    expect_within(curved, {gradients.begin() + 4, gradients.end()}, expected_dscale, "dscale");
    expect_within(curved, adx.values(), expected_dx, "dx");
    expect_within(curved, edx.values(), expected_evaluated, "dx of given statistics");
  }
}

TEST_P(Gradients, SoftmaxMatchesFiniteDifferences) {
  const Shape shape{1, {1, 1, 5}};
  const auto labels = on_device(std::vector<int32_t>{3});
  for (const float smoothing : {0.0f, 0.2f}) {
    const auto dz = unwritten(shape);
    const auto loss = [&](const Values& z, const TensorOnDevice& d) {
      const auto logits = filled(shape, z);
      const auto stats = unwritten(2);
      ops->softmax_cross_entropy_backward(logits.tensor(), {.labels = labels.data(), .size = 1}, 1, smoothing,
                                          d.tensor(), stats.data(), Gradient::overwrite);
      return static_cast<double>(stats.values()[0]);
    };
    const Values z = random_values(5, 1);
    loss(z, dz);
    const auto unused = unwritten(shape);
    const Values expected = differences(z, [&](const Values& v) { return loss(v, unused); });
    expect_within(curved, dz.values(), expected, "dlogits");
  }
}

TEST_P(Gradients, LayerNormMatchesFiniteDifferences) {
  for (const int64_t groups : {0, 2}) {
    const Shape shape{2, {3, 2, 4}};
    const int64_t count = shape.elements(), sizes[] = {2};
    const auto norm = ops->layer_norm({.input = shape.image, .groups = groups, .epsilon = 0.25f}, sizes);
    Values x = random_values(count, 1);
    for (float& v : x) v = 3 * v + 1;  // so that the differences are small beside the deviation
    const Values dy = random_values(count, 2), scale = random_values(4, 3), shift = random_values(4, 4);
    const auto loss = [&](const Values& at_x, const Values& at_scale, const Values& at_shift) {
      const auto ax = filled(shape, at_x), ay = unwritten(shape);
      const auto ascale = on_device(at_scale), ashift = on_device(at_shift);
      norm->bind(ascale.data(), ashift.data());
      norm->forward(ax.tensor(), ay.tensor());
      return dot(ay.values(), dy);
    };
    const Values expected_dx = differences(x, [&](const Values&v) { return loss(v, scale, shift); }),
                 expected_dscale = differences(scale, [&](const Values&v) { return loss(x, v, shift); }),
                 expected_dshift = differences(shift, [&](const Values&v) { return loss(x, scale, v); });
    const auto ax = filled(shape, x), ay = unwritten(shape), ady = filled(shape, dy), adx = unwritten(shape);
    const auto ascale = on_device(scale), ashift = on_device(shift), dscale = unwritten(4), dshift = unwritten(4);
    norm->bind(ascale.data(), ashift.data());
    norm->forward(ax.tensor(), ay.tensor());
    norm->backward(ax.tensor(), ady.tensor(), adx.tensor(), dscale.data(), dshift.data(), Gradient::overwrite);
    expect_within(backend.gradients, dscale.values(), expected_dscale, "dscale");
    expect_within(backend.gradients, dshift.values(), expected_dshift, "dshift");
    expect_within(curved, adx.values(), expected_dx, "dx");
  }
}

TEST_P(Gradients, AttentionMatchesFiniteDifferences) {
  for (const bool causal : {false, true}) {
    const Shape in{2, {5, 1, 12}}, out{2, {5, 1, 4}};
    const int64_t sizes[] = {2};
    const auto attention = ops->attention({.tokens = 5, .width = 4, .heads = 2, .causal = causal}, sizes);
    const Values qkv = random_values(in.elements(), 1), dy = random_values(out.elements(), 2);
    const Values expected = differences(qkv, [&](const Values& v) {
      const auto from = filled(in, v), y = unwritten(out);
      attention->forward(from.tensor(), y.tensor());
      return dot(y.values(), dy);
    });
    const auto from = filled(in, qkv), y = unwritten(out), ady = filled(out, dy), dqkv = unwritten(in);
    attention->forward(from.tensor(), y.tensor());
    attention->backward(from.tensor(), y.tensor(), ady.tensor(), dqkv.tensor());
    expect_within(curved, dqkv.values(), expected, "dqkv");
  }
}

}  // namespace
}  // namespace ddp::testing
