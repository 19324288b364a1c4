#include "core/error.h"
#include "tests/ops/backend.h"

#include <map>

namespace ddp::testing {
namespace {

struct BatchNormVariant {
  bool relu, add, more, affine, center;
  Activation function = {};  // another one than a ReLU

  Activation activation() const { return relu ? kRelu : function; }
};

const std::vector<BatchNormVariant> kSomeVariants = {{false, false, false, true, false},
                                                     {true, false, false, true, true},
                                                     {true, true, true, false, true},
                                                     {false, true, true, true, true}};
const std::vector<BatchNormVariant> kMoreVariants = {
    {true, true, true, true, true},    {true, true, false, false, true},  {true, false, true, true, true},
    {false, false, true, true, false}, {false, false, false, true, true}, {false, false, false, false, false}};

// Each function, with and without the other parts.
std::vector<BatchNormVariant> function_variants() {
  using enum Activation::Kind;
  std::vector<BatchNormVariant> variants;
  for (const Activation::Kind kind :
       {relu6, leaky_relu, sigmoid, hard_sigmoid, silu, hard_swish, gelu, gelu_tanh, Activation::Kind::tanh}) {
    const bool more = variants.size() % 2 == 0, affine = variants.size() % 4 != 3, center = variants.size() % 3 == 0;
    variants.push_back({false, false, more, affine, center, {kind, 0.3f}});
  }
  return variants;
}

struct BatchNormCase {
  int64_t n, h, w, c;
  On on = On::every;
  std::vector<BatchNormVariant> variants = {};  // empty: kSomeVariants, on the CPU kMoreVariants too
};

// From the work of one thread to several groups of blocks and several tiles.
const BatchNormCase kBatchNormCases[] = {
    {1, 1, 1, 1},
    {1, 1, 1, 64},
    {2, 3, 5, 1, On::every, kSomeVariants},
    {7, 1, 1, 3},
    {4, 1, 1, 5},
    {9, 1, 1, 40},
    {3, 4, 4, 12},
    {5, 7, 3, 17},
    {3, 2, 5, 33},
    {5, 7, 6, 20},
    {17, 3, 3, 16},
    {300, 1, 1, 10, On::every, kSomeVariants},
    {3, 300, 7, 3, On::every, {{false, false, false, true, true}}},  // few channels
    {3, 33, 32, 64, On::cpu, {{true, false, true, true, true}}},     // several work items per sample
    {33, 16, 16, 24, On::cpu, {{true, true, true, true, true}}},     // several samples per work item
    {2, 65, 64, 17, On::cpu, {{true, false, true, true, true}}},     // several work items per plane of a block
    {67, 9, 9, 3, On::cuda, kSomeVariants},
    {9, 14, 14, 64, On::cuda, kSomeVariants},
    {40, 4, 4, 200, On::cuda, kSomeVariants},
    {1, 30, 31, 130, On::cuda, kSomeVariants},
};

std::string name_of(const BatchNormCase& c) { return fmt::format("n{}_{}x{}x{}", c.n, c.h, c.w, c.c); }

Tensor samples_of(Tensor t, int64_t first, int64_t count) {
  const int64_t sample = stored_elements({1, t.shape.image}, t.format);
  t.data = static_cast<char*>(t.data) + first * sample * static_cast<int64_t>(size_of(t.dtype));
  t.shape.n = count;
  return t;
}

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

class BatchNorm : public CaseTest<BatchNormCase> {
 protected:
  // Both passes. Each part gets the reference's result of the part before it as input, so errors do not accumulate.
  void expect_agreement(const BatchNormVariant& v) {
    const Shape shape{c.n, {c.h, c.w, c.c}};
    const int64_t count = shape.elements(), channels = c.c;
    const float samples = static_cast<float>(count / channels + 1);  // as if other ranks added to the sums
    Values x = random_values(count, 1), skip = random(count, 2), dy = random(count, 3), more = random(count, 4);
    for (int64_t i = 0; i < count; ++i) x[i] = 2 * x[i] + static_cast<float>(i % channels % 5);
    x = rounded(x, type);
    Values scale = random_values(channels, 5), shift = random_values(channels, 6), center(channels);
    const bool function = v.function.reads_input();
    if (function)
      for (float& s : scale) s *= 3;  // beyond the kinks of the functions
    for (int64_t k = 0; k < channels; ++k) center[k] = static_cast<float>(k % 5) + 0.1f;
    const Values mean = random_values(channels, 7), variance = positive(random_values(channels, 8)), given_dy = dy;

    Values sums(2 * channels), y(count), evaluated(count);
    const auto expected = reference->batch_norm({shape.image, {}, 1e-3f, v.activation(), v.add}, {});
    const auto behind = reference->batch_norm({shape.image, {}, 1e-3f}, {});  // takes the gradient g itself
    for (ddp::BatchNorm* const norm : {expected.get(), behind.get()})
      norm->bind(v.affine ? scale.data() : nullptr, v.affine ? shift.data() : nullptr);
    expected->sum(on_host(x, shape), v.center ? center.data() : nullptr, sums.data());
    behind->begin_forward(v.center ? center.data() : nullptr, sums.data(), samples);
    behind->forward(on_host(x, shape), {}, on_host(y, shape));
    expected->evaluate(on_host(x, shape), on_host(skip, shape), on_host(evaluated, shape), mean.data(),
                       variance.data());
    expected->begin_forward(v.center ? center.data() : nullptr, sums.data(), samples);
    expected->forward(on_host(x, shape), on_host(skip, shape), on_host(y, shape));
    // Rounding decides the sign of a y near 0, so the gradients use the y of the op. The sums are those of the dy that
    // the op stores, which is rounded.
    Values t_sums(2 * channels), dx(count), exact_g;
    const auto expect_gradients_for = [&](Values y_of_relu) {
      dy = given_dy;
      expected->backward_sum(on_host(x, shape), on_host(y_of_relu, shape), v.more ? on_host(more, shape) : Tensor{},
                             on_host(dy, shape), t_sums.data(), t_sums.data() + channels);
      exact_g = dy;
      dy = rounded(dy, type);
    };
    const auto expect_sums_of = [&](Values g) {
      behind->backward_sum(on_host(x, shape), {}, {}, on_host(g, shape), t_sums.data(), t_sums.data() + channels);
      behind->begin_backward(t_sums.data(), t_sums.data() + channels, samples);
      behind->backward(on_host(x, shape), on_host(g, shape), on_host(dx, shape));
    };

    Values scaled(count), added_dy;  // of the given statistics
    const auto expect_scaled_for = [&](Values y_of_relu) {
      added_dy = given_dy;
      expected->evaluate_backward(on_host(x, shape), on_host(y_of_relu, shape),
                                  v.more ? on_host(more, shape) : Tensor{}, on_host(added_dy, shape), {}, mean.data(),
                                  variance.data());
      exact_g = added_dy;
      added_dy = rounded(added_dy, type);
    };
    const auto expect_scaled_of = [&](Values g) {
      behind->evaluate_backward({}, {}, {}, on_host(g, shape), on_host(scaled, shape), mean.data(), variance.data());
    };
    // g, after a pass that may leave it or the given dy there. Only the derivatives of functions round.
    const auto expect_left = [&](const Values& actual, const Values& g, bool leaves_g, const char* what) {
      if (function)
        expect_activations(actual, exact_g, what);
      else
        EXPECT_TRUE(actual == g || (!leaves_g && actual == given_dy)) << what;
    };

    std::map<std::string, std::vector<Values>> first;  // of each format
    each_setup([&] {
      const int64_t sizes[] = {c.n, 2};
      const auto norm = ops->batch_norm({shape.image, format, 1e-3f, v.activation(), v.add}, sizes);
      const auto ascale = on_device(scale), ashift = on_device(shift), acenter = on_device(center),
                 amean = on_device(mean), avariance = on_device(variance), given = on_device(sums),
                 asums = unwritten(2 * channels), again = unwritten(2 * channels);
      // Activations past n may hold any finite value.
      const float beside = format.kind == Format::Kind::batch_interleaved ? 1000.0f : 0.0f;
      const auto ax = filled(shape, x, beside), askip = filled(shape, skip, -beside), ay = unwritten(shape),
                 ae = unwritten(shape);
      const float* const from = v.center ? acenter.data() : nullptr;
      const Tensor added = v.add ? askip.tensor() : Tensor{};
      norm->bind(v.affine ? ascale.data() : nullptr, v.affine ? ashift.data() : nullptr);
      norm->sum(ax.tensor(), from, asums.data());
      norm->sum(ax.tensor(), from, again.data());
      expect_sums(asums.values(), sums, "sums");
      EXPECT_EQ(asums.values(), again.values());
      norm->begin_forward(from, given.data(), samples);
      norm->forward(ax.tensor(), added, ay.tensor());
      norm->evaluate(ax.tensor(), added, ae.tensor(), amean.data(), avariance.data());
      if (ops->slice_bytes() > 0 && format.kind != Format::Kind::batch_interleaved && c.n > 1) {
        const auto in_parts = unwritten(shape);
        for (const auto& [at, size] : {std::pair{int64_t{0}, int64_t{1}}, {int64_t{1}, c.n - 1}})
          norm->forward(samples_of(ax.tensor(), at, size), v.add ? samples_of(added, at, size) : Tensor{},
                        samples_of(in_parts.tensor(), at, size));
        EXPECT_EQ(in_parts.loaded().dense, ay.loaded().dense) << "in parts";
      }
      const auto actual_y = ay.loaded(), actual_e = ae.loaded();
      expect_activations(actual_y.dense, y, "y");
      expect_activations(actual_e.dense, evaluated, "y of given statistics");
      expect_finite(actual_y.padding, "y");
      if (format.kind == Format::Kind::blocked_channels) {
        expect_zero(actual_y.padding, "y");
        expect_zero(actual_e.padding, "y of given statistics");
      }

      expect_gradients_for(actual_y.dense);
      const auto ady = filled(shape, given_dy), amore = filled(shape, more), adx = unwritten(shape);
      const auto at_sums = unwritten(2 * channels);
      norm->backward_sum(ax.tensor(), v.relu ? ay.tensor() : Tensor{}, v.more ? amore.tensor() : Tensor{}, ady.tensor(),
                         at_sums.data(), at_sums.data() + channels);
      const auto actual_dy = ady.loaded();
      expect_left(actual_dy.dense, dy, v.add || v.more, "g");
      expect_sums_of(function ? actual_dy.dense : dy);
      const auto given_t = on_device(t_sums);
      expect_sums(at_sums.values(), t_sums, "sums of gradients");
      expect_zero(actual_dy.padding, "dy");
      norm->begin_backward(given_t.data(), given_t.data() + channels, samples);
      norm->backward(ax.tensor(), ady.tensor(), adx.tensor());
      norm->backward(ax.tensor(), ady.tensor(), ady.tensor());
      const auto actual_dx = adx.loaded();
      expect_activations(actual_dx.dense, dx, "dx");
      expect_zero(actual_dx.padding, "dx");
      EXPECT_EQ(ady.values(), actual_dx.dense) << "in place";

      expect_scaled_for(actual_e.dense);
      const auto sdy = filled(shape, given_dy), gdy = filled(shape, given_dy), sdx = unwritten(shape);
      const Tensor of_relu = v.relu ? ae.tensor() : Tensor{}, term = v.more ? amore.tensor() : Tensor{};
      const Tensor of_function = function ? ax.tensor() : Tensor{};
      const auto in_place = filled(shape, given_dy);
      for (const auto& [to_dy, to_dx] :
           {std::pair{sdy.tensor(), sdx.tensor()}, {gdy.tensor(), Tensor{}}, {in_place.tensor(), in_place.tensor()}})
        norm->evaluate_backward(of_function, of_relu, term, to_dy, to_dx, amean.data(), avariance.data());
      expect_scaled_of(!function ? added_dy : v.more ? gdy.values() : exact_g);
      expect_activations(sdx.loaded().dense, scaled, "dx of given statistics");
      expect_zero(sdx.loaded().padding, "dx of given statistics");
      expect_left(gdy.loaded().dense, added_dy, true, "g alone");
      if (!function || v.more) expect_left(sdy.loaded().dense, added_dy, v.add || v.more, "g of given statistics");
      EXPECT_EQ(in_place.values(), sdx.loaded().dense) << "in place";

      std::vector<Values> results = {sdx.values(), asums.values(), at_sums.values(), actual_dx.dense};
      EXPECT_EQ(results, first.emplace(text_of(format), results).first->second) << "at another number of threads";
    });
  }
};
INSTANTIATE_TEST_SUITE_P(, BatchNorm, on_each_backend(kBatchNormCases), kCaseName);

TEST_P(BatchNorm, AgreesWithTheReference) {
  std::vector<BatchNormVariant> variants = c.variants;
  if (variants.empty()) {
    variants = kSomeVariants;
    if (!backend.cuda()) variants.insert(variants.end(), kMoreVariants.begin(), kMoreVariants.end());
  }
  const std::vector<BatchNormVariant> functions = function_variants();
  for (size_t i = 0; c.variants.empty() && i < functions.size(); ++i)
    if ((static_cast<int64_t>(i) + c.n + c.c) % 3 == 0) variants.push_back(functions[i]);
  for (const BatchNormVariant& v : variants) {
    SCOPED_TRACE(fmt::format("activation {}, add {}, more {}, affine {}, center {}",
                             static_cast<int>(v.activation().kind), v.add, v.more, v.affine, v.center));
    expect_agreement(v);
  }
}

class BatchNormSums : public BackendTest {};
INSTANTIATE_TEST_SUITE_P(, BatchNormSums, ::testing::ValuesIn(backends_where(is_compared)), kBackendName);

// The variance of one value is 0. The normalized value is 0 up to rounding, which 1 / sqrt(epsilon) magnifies.
TEST_P(BatchNormSums, OneValueHasVarianceZero) {
  const Shape shape{1, {1, 1, 2}};
  const int64_t sizes[] = {1};
  each_setup([&] {
    const auto norm = ops->batch_norm({shape.image, format}, sizes);
    const auto x = filled(shape, {3, -0.5f}), y = unwritten(shape), dy = filled(shape, {1, 2}), dx = unwritten(shape);
    const auto center = on_device(Values{1.1f, -0.3f}), sums = unwritten(4);
    norm->bind(nullptr, nullptr);
    norm->sum(x.tensor(), center.data(), sums.data());
    norm->begin_forward(center.data(), sums.data(), 1);
    norm->forward(x.tensor(), {}, y.tensor());
    for (const float v : y.values()) EXPECT_NEAR(v, 0, 1e-3);
    norm->backward_sum(x.tensor(), {}, {}, dy.tensor(), sums.data(), sums.data() + 2);
    norm->begin_backward(sums.data(), sums.data() + 2, 1);
    norm->backward(x.tensor(), dy.tensor(), dx.tensor());
    for (const float v : dx.values()) EXPECT_NEAR(v, 0, 1e-3);
  });
}

TEST_P(BatchNormSums, RefuseMoreSamplesThanDeclared) {
  const Shape shape{5, {1, 1, 3}};
  const int64_t sizes[] = {4};
  each_setup([&] {
    const auto norm = ops->batch_norm({.input = shape.image, .format = format, .activation = kRelu}, sizes);
    const auto x = unwritten(shape), y = unwritten(shape);
    const auto sums = on_device(Values(6)), ones = on_device(Values(3, 1));
    norm->bind(nullptr, nullptr);
    EXPECT_THROW(norm->sum(x.tensor(), nullptr, sums.data()), Error);
    norm->begin_forward(nullptr, sums.data(), 5);
    EXPECT_THROW(norm->forward(x.tensor(), {}, y.tensor()), Error);
    EXPECT_THROW(norm->evaluate(x.tensor(), {}, y.tensor(), ones.data(), ones.data()), Error);
  });
}

// One value of a channel is NaN: all outputs of the channel are, and none of another. A ReLU keeps it in both passes.
TEST_P(BatchNormSums, NanStaysNan) {
  const Shape shape{3, {4, 4, 17}};
  const int64_t sizes[] = {3}, count = shape.elements(), channels = 17, bad = 5, at = 20 * channels + bad;
  Values x = random(count, 1);
  x[at] = NAN;
  each_setup([&] {
    const auto norm =
        ops->batch_norm({.input = shape.image, .format = format, .activation = kRelu, .add = true}, sizes);
    const auto ax = filled(shape, x), askip = filled(shape, random(count, 2)), ay = unwritten(shape),
               ae = unwritten(shape), ady = filled(shape, Values(count, 1)), adx = unwritten(shape);
    const auto sums = unwritten(2 * channels), t = unwritten(2 * channels), mean = on_device(Values(channels)),
               variance = on_device(Values(channels, 1));
    norm->bind(nullptr, nullptr);
    norm->sum(ax.tensor(), nullptr, sums.data());
    norm->begin_forward(nullptr, sums.data(), 48);
    norm->forward(ax.tensor(), askip.tensor(), ay.tensor());
    norm->evaluate(ax.tensor(), askip.tensor(), ae.tensor(), mean.data(), variance.data());
    norm->backward_sum(ax.tensor(), ay.tensor(), {}, ady.tensor(), t.data(), t.data() + channels);
    const Values g = ady.values();
    norm->begin_backward(t.data(), t.data() + channels, 48);
    norm->backward(ax.tensor(), ady.tensor(), adx.tensor());
    const Values s = sums.values(), y = ay.values(), e = ae.values(), dx = adx.values();
    for (int64_t c = 0; c < 2 * channels; ++c) EXPECT_EQ(std::isnan(s[c]), c % channels == bad) << c;
    for (int64_t i = 0; i < count; ++i) {
      ASSERT_EQ(std::isnan(y[i]), i % channels == bad) << i;
      ASSERT_EQ(std::isnan(e[i]), i == at) << i;
      ASSERT_EQ(std::isnan(dx[i]), i % channels == bad) << i;
      ASSERT_TRUE(i % channels != bad || g[i] == 1) << i;
    }
    EXPECT_TRUE(std::isnan(t.values()[channels + bad]));
  });
}

// Each channel has one value, before rounding: its scale.
TEST_P(BatchNormSums, RoundToNearestEven) {
  Values scale = {0,       -0.0f,    1 + 0x1p-8f, 1 + 0x3p-8f, 1 + 0x1.01p-8f, -1 - 0x1p-8f, -1 - 0x3p-8f,
                  3.4e38f, INFINITY, NAN,         -INFINITY,   -3.4e38f};
  while (scale.size() < 40) scale.push_back(1 + static_cast<float>(scale.size()) * 0x1p-9f);
  const auto channels = std::ssize(scale);
  const Shape shape{3, {5, 1, channels}};
  const int64_t sizes[] = {3};
  each_setup([&] {
    const auto norm = ops->batch_norm({.input = shape.image, .format = format, .epsilon = 0}, sizes);
    const auto x = filled(shape, Values(shape.elements(), 1)), y = unwritten(shape);
    const auto ascale = on_device(scale), shift = on_device(Values(channels)),
               variance = on_device(Values(channels, 1));
    norm->bind(ascale.data(), shift.data());
    norm->evaluate(x.tensor(), {}, y.tensor(), shift.data(), variance.data());
    const Values expected = rounded(scale, type), actual = y.loaded().dense;
    for (int64_t i = 0; i < shape.elements(); ++i) {
      const float value = expected[i % channels];
      ASSERT_TRUE(std::isnan(value) ? std::isnan(actual[i]) : actual[i] == value) << i << ": " << actual[i];
    }
  });
}

class BatchNormPrecision : public BackendTest {};
INSTANTIATE_TEST_SUITE_P(, BatchNormPrecision, ::testing::ValuesIn(backends_where(is_fp32)), kBackendName);

// The mean is large compared with the deviation. Without a center near the mean, all digits would cancel.
TEST_P(BatchNormPrecision, CenterPreservesVariancePrecision) {
  const Shape shape{16, {8, 8, 16}};
  const int64_t sizes[] = {16};
  Values values = random_values(shape.elements(), 1);
  for (float& v : values) v += 1000;
  each_setup([&] {
    const auto x = filled(shape, values), y = unwritten(shape);
    const auto center = on_device(Values(16, 1000)), sums = unwritten(32);
    const auto norm = ops->batch_norm({.input = shape.image, .format = format}, sizes);
    norm->bind(nullptr, nullptr);
    norm->sum(x.tensor(), center.data(), sums.data());
    norm->begin_forward(center.data(), sums.data(), 16 * 64);
    norm->forward(x.tensor(), {}, y.tensor());
    double squares = 0;
    for (const float v : y.values()) squares += static_cast<double>(v) * v;
    EXPECT_NEAR(squares / static_cast<double>(shape.elements()), 1, 1e-3);
  });
}

TEST_P(BatchNormSums, SumsOfShardsAddUp) {
  const ImageShape image{5, 4, 24};
  const int64_t sizes[] = {3, 4, 7};
  const Values x = random(7 * image.elements(), 1);
  each_setup([&] {
    const auto norm = ops->batch_norm({.input = image, .format = format}, sizes);
    const auto sums_of = [&](int64_t first, int64_t n) {
      const auto part =
          filled({n, image}, {x.begin() + first * image.elements(), x.begin() + (first + n) * image.elements()});
      const auto sums = unwritten(48);
      norm->sum(part.tensor(), nullptr, sums.data());
      return sums.values();
    };
    Values added = sums_of(0, 3);
    const Values rest = sums_of(3, 4);
    for (size_t i = 0; i < added.size(); ++i) added[i] += rest[i];
    expect_close(added, sums_of(0, 7), "sums", backend.sums);
  });
}

class RunningStats : public BackendTest {};
INSTANTIATE_TEST_SUITE_P(, RunningStats, ::testing::ValuesIn(backends_where(runs_spans)), kBackendName);

TEST_P(RunningStats, AgreeWithTheReference) {
  const RunningStatsSpan layers[] = {{0, 3, 1, 0.1f, true}, {6, 300, 49, 0.1f, false}, {608, 17, 784, 0.01f, true}};
  const int64_t total = 642;  // includes two floats of no layer
  const auto stats = ops->running_stats(layers), expected = reference->running_stats(layers);
  for (const float samples : {1.0f, 50.0f})
    for (const bool replace : {false, true}) {
      SCOPED_TRACE(fmt::format("{} samples, replace {}", samples, replace));
      const Values before_update = positive(random_values(total, 1));
      Values after = before_update, sums = random_values(total, 2);
      for (const RunningStatsSpan& layer : layers)
        for (int64_t k = 0; k < layer.channels; ++k) {  // sums that real samples can give
          const float count = samples * layer.positions;
          float &s1 = sums[layer.offset + k], &s2 = sums[layer.offset + layer.channels + k];
          s2 = count * s1 * s1 + (count > 1 ? count * std::abs(s2) : 0.0f);
          s1 *= count;
        }
      const auto state = on_device(before_update), asums = on_device(sums), go = on_device(Values(40)),
                 skip = on_device(Values{0, 0, std::nanf(""), 0});
      stats->update(state.data(), asums.data(), samples, replace, {skip.data(), 4});
      EXPECT_EQ(state.values(), before_update);
      expected->update(after.data(), sums.data(), samples, replace, {});
      stats->update(state.data(), asums.data(), samples, replace, {go.data(), 40});
      expect_close(state.values(), after, "state", 1e-6);
      EXPECT_EQ(state.values()[606], before_update[606]);
      stats->update(state.data(), asums.data(), samples, replace, {});
      EXPECT_NE(state.values(), after);
    }
}

// Two layers without a gap between them; sums of known values.
TEST_P(RunningStats, MoveTowardsBatchStatistics) {
  const RunningStatsSpan layers[] = {
      {.offset = 0, .channels = 2, .positions = 2, .momentum = 0.1f, .unbiased = true},
      {.offset = 4, .channels = 1, .positions = 1, .momentum = 0.25f, .unbiased = false}};
  const auto stats = ops->running_stats(layers);
  // layer 0: means 1 and 0, variances 1 and 4; layer 1: mean 2, variance 1
  const Values before_update = {1, 0, 1, 4, 2, 1};
  // 2 samples. Values minus the means: layer 0 has (1, 1, 3, 3) and (-2, 2, -2, 2), layer 1 has (-1, 3).
  const auto sums = on_device(Values{8, 0, 20, 16, 2, 10});
  // layer 0: means and unbiased variances; layer 1: mean and biased variance
  const Values batch = {3, 0, 4.0f / 3, 16.0f / 3, 3, 4};
  const auto go = on_device(Values{0, 0}), skip = on_device(Values{0, 1});
  const auto state = on_device(before_update), replaced = on_device(before_update);
  stats->update(state.data(), sums.data(), 2, false, {skip.data(), 2});
  EXPECT_EQ(state.values(), before_update);
  stats->update(state.data(), sums.data(), 2, false, {go.data(), 2});
  stats->update(replaced.data(), sums.data(), 2, true, {go.data(), 2});
  for (size_t i = 0; i < batch.size(); ++i) {
    const float momentum = i < 4 ? 0.1f : 0.25f;
    EXPECT_NEAR(state.values()[i], before_update[i] + momentum * (batch[i] - before_update[i]), 1e-6) << i;
    EXPECT_NEAR(replaced.values()[i], batch[i], 1e-6) << i;
  }
}

TEST_P(RunningStats, VarianceOfOneValueIsZero) {
  const RunningStatsSpan layer[] = {{.offset = 0, .channels = 1}};
  const auto state = on_device(Values{2, 5}), sums = on_device(Values{3, 9});
  ops->running_stats(layer)->update(state.data(), sums.data(), 1, true, {});
  EXPECT_EQ(state.values(), (Values{5, 0}));
}

}  // namespace
}  // namespace ddp::testing
