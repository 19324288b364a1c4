#include "tests/ops/cuda/checks.h"

#include <fmt/format.h>

#include <cmath>
#include <span>

namespace ddp::testing {
namespace {

struct Variant {
  bool relu, add, affine, center, more;
};

Values positive(Values values) {
  for (float& v : values) v = 0.5f + std::abs(v);
  return values;
}

// s1 and s2 differ in magnitude, so each error is relative to its own norm.
void expect_sums(const Values& actual, const Values& expected, const char* what) {
  const auto half = std::ssize(expected) / 2;
  ASSERT_EQ(actual.size(), expected.size());
  expect_close({actual.begin(), actual.begin() + half}, {expected.begin(), expected.begin() + half}, what);
  expect_close({actual.begin() + half, actual.end()}, {expected.begin() + half, expected.end()}, what);
}

// Runs both passes on the device and on the reference. Each part on the device gets the reference's result of the part
// before it as input, so errors do not accumulate.
void check(const Tested& t, const Shape& shape, const Variant& v) {
  const int64_t count = shape.elements(), channels = shape.image.c;
  const float samples = static_cast<float>(count / channels + 1);  // sum over all ranks
  const BatchNormDesc desc{shape.image, {}, 1e-3f, v.relu, v.add};
  Values x = random_values(count, 1), skip = t.random(count, 2), dy = t.random(count, 3), more = t.random(count, 4);
  for (int64_t i = 0; i < count; ++i) x[i] = 2 * x[i] + static_cast<float>(i % channels % 5);
  x = rounded(x, t.type);
  Values scale = random_values(channels, 5), shift = random_values(channels, 6), center(channels);
  for (int64_t c = 0; c < channels; ++c) center[c] = static_cast<float>(c % 5) + 0.1f;
  const Values mean = random_values(channels, 7), variance = positive(random_values(channels, 8));

  Values sums(2 * channels), y(count), evaluated(count), t_sums(2 * channels), dx(count);
  const auto reference = t.reference.batch_norm(desc, {});
  reference->bind(v.affine ? scale.data() : nullptr, v.affine ? shift.data() : nullptr);
  reference->sum(on_host(x, shape), v.center ? center.data() : nullptr, sums.data());
  reference->evaluate(on_host(x, shape), on_host(skip, shape), on_host(evaluated, shape), mean.data(), variance.data());
  reference->forward(on_host(x, shape), on_host(skip, shape), on_host(y, shape), v.center ? center.data() : nullptr,
                     sums.data(), samples);

  const int64_t sizes[] = {shape.n};
  const auto norm = t.ops.batch_norm(desc, sizes);
  const OnDevice<float> ascale(t.device, scale), ashift(t.device, shift), acenter(t.device, center),
      amean(t.device, mean), avariance(t.device, variance), asums(t.device, Values(2 * channels, std::nanf(""))),
      again(t.device, Values(2 * channels)), given(t.device, sums);
  const OnDeviceTensor ax(t.device, shape, t.type, x), ay(t.device, shape, t.type), ae(t.device, shape, t.type),
      askip(t.device, shape, t.type, skip);
  const float* from = v.center ? acenter.data() : nullptr;
  const Tensor added = v.add ? askip.tensor() : Tensor{};
  norm->bind(v.affine ? ascale.data() : nullptr, v.affine ? ashift.data() : nullptr);
  norm->sum(ax.tensor(), from, asums.data());
  norm->sum(ax.tensor(), from, again.data());
  expect_sums(asums.values(), sums, "sums");
  EXPECT_EQ(asums.values(), again.values());
  norm->forward(ax.tensor(), added, ay.tensor(), from, given.data(), samples);
  norm->evaluate(ax.tensor(), added, ae.tensor(), amean.data(), avariance.data());
  expect_close(ay.values(), y, "y", t.tolerance());
  expect_close(ae.values(), evaluated, "y of given statistics", t.tolerance());

  // Rounding decides the sign of a y near 0, so the gradients use the reference's y. The reference sums the dy that the
  // device stores, which is rounded.
  y = rounded(y, t.type);
  const OnDeviceTensor given_y(t.device, shape, t.type, y), ady(t.device, shape, t.type, dy),
      amore(t.device, shape, t.type, more), adx(t.device, shape, t.type);
  const OnDevice<float> at_sums(t.device, Values(2 * channels, std::nanf("")));
  reference->backward_sum(on_host(x, shape), on_host(y, shape), v.more ? on_host(more, shape) : Tensor{},
                          on_host(dy, shape), t_sums.data());
  dy = rounded(dy, t.type);
  reference->backward_sum(on_host(x, shape), on_host(y, shape), {}, on_host(dy, shape), t_sums.data());
  norm->backward_sum(ax.tensor(), v.relu ? given_y.tensor() : Tensor{}, v.more ? amore.tensor() : Tensor{},
                     ady.tensor(), at_sums.data());
  EXPECT_EQ(ady.values(), dy);
  expect_sums(at_sums.values(), t_sums, "sums of gradients");

  const OnDevice<float> given_t(t.device, t_sums);
  reference->backward(on_host(x, shape), on_host(dy, shape), on_host(dx, shape), t_sums.data(), samples);
  norm->backward(ax.tensor(), ady.tensor(), adx.tensor(), given_t.data(), samples);
  norm->backward(ax.tensor(), ady.tensor(), ady.tensor(), given_t.data(), samples);
  expect_close(adx.values(), dx, "dx", t.tolerance());
  EXPECT_EQ(ady.values(), adx.values()) << "in place";
}

}  // namespace

// Shapes from the work of one thread to several groups of blocks and several tiles.
void check_batch_norm(const Tested& t) {
  for (const Shape& shape : {Shape{1, {1, 1, 1}}, Shape{1, {1, 1, 64}}, Shape{2, {3, 5, 1}}, Shape{7, {1, 1, 3}},
                             Shape{3, {4, 4, 12}}, Shape{5, {7, 3, 17}}, Shape{300, {1, 1, 10}}, Shape{9, {28, 28, 64}},
                             Shape{40, {4, 4, 200}}, Shape{67, {9, 9, 3}}, Shape{1, {40, 41, 130}}})
    for (const Variant& v : {Variant{false, false, true, false, false}, Variant{true, false, true, true, false},
                             Variant{true, true, false, true, true}, Variant{false, true, true, true, true}}) {
      SCOPED_TRACE(fmt::format("{} x {}x{}x{}, relu {}, add {}", shape.n, shape.image.h, shape.image.w, shape.image.c,
                               v.relu, v.add));
      check(t, shape, v);
    }
}

// The variance of one value is 0. The normalized value is 0 up to rounding, which 1 / sqrt(epsilon) magnifies.
void check_batch_norm_of_one_value(const Tested& t) {
  const Shape shape{1, {1, 1, 2}};
  const int64_t sizes[] = {1};
  const auto norm = t.ops.batch_norm({shape.image, {}}, sizes);
  const OnDeviceTensor x(t.device, shape, t.type, Values{3, -0.5f}), y(t.device, shape, t.type),
      dy(t.device, shape, t.type, Values{1, 2}), dx(t.device, shape, t.type);
  const OnDevice<float> center(t.device, {1.1f, -0.3f}), sums(t.device, Values(4));
  norm->bind(nullptr, nullptr);
  norm->sum(x.tensor(), center.data(), sums.data());
  norm->forward(x.tensor(), {}, y.tensor(), center.data(), sums.data(), 1);
  for (const float v : y.values()) EXPECT_NEAR(v, 0, 1e-3);
  norm->backward_sum(x.tensor(), {}, {}, dy.tensor(), sums.data());
  norm->backward(x.tensor(), dy.tensor(), dx.tensor(), sums.data(), 1);
  for (const float v : dx.values()) EXPECT_NEAR(v, 0, 1e-3);
}

void check_running_stats(const Tested& t) {
  const RunningStatsSpan layers[] = {{0, 3, 1, 0.1f, true}, {6, 300, 49, 0.1f, false}, {608, 17, 784, 0.01f, true}};
  const int64_t total = 642;  // includes two floats of no layer
  const auto stats = t.ops.running_stats(layers), reference = t.reference.running_stats(layers);
  for (const float samples : {1.0f, 50.0f})
    for (const bool replace : {false, true}) {
      SCOPED_TRACE(fmt::format("{} samples, replace {}", samples, replace));
      Values expected = positive(random_values(total, 1)), sums = random_values(total, 2);
      for (const RunningStatsSpan& layer : layers)
        for (int64_t c = 0; c < layer.channels; ++c) {  // sums that real samples can give
          const float count = samples * layer.positions;
          float &s1 = sums[layer.offset + c], &s2 = sums[layer.offset + layer.channels + c];
          s2 = count * s1 * s1 + (count > 1 ? count * std::abs(s2) : 0.0f);
          s1 *= count;
        }
      const OnDevice<float> state(t.device, expected), asums(t.device, sums), go(t.device, Values(40)),
          skip(t.device, {0, 0, std::nanf(""), 0});
      const Values before = expected;
      stats->update(state.data(), asums.data(), samples, replace, {skip.data(), 4});
      EXPECT_EQ(state.values(), before);
      reference->update(expected.data(), sums.data(), samples, replace, {});
      stats->update(state.data(), asums.data(), samples, replace, {go.data(), 40});
      expect_close(state.values(), expected, "state", 1e-6);
      EXPECT_EQ(state.values()[606], before[606]);
      stats->update(state.data(), asums.data(), samples, replace, {});
    }
}

}  // namespace ddp::testing
