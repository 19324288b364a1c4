#include "tests/ops/backend.h"

namespace ddp::testing {
namespace {

struct SoftmaxCase {
  int64_t n, classes;
  On on = On::every;
};

const SoftmaxCase kSoftmaxCases[] = {{1, 1},
                                     {1, 2},
                                     {5, 2},
                                     {17, 2},
                                     {1, 10},
                                     {5, 10},
                                     {8, 10},
                                     {17, 10},
                                     {48, 10},
                                     {96, 10},
                                     {256, 10},
                                     {300, 10},
                                     {1500, 10},
                                     {255, 33},
                                     {1, 100},
                                     {5, 100},
                                     {17, 100},
                                     {97, 100},
                                     {70, 257},
                                     {1, 1000},
                                     {3, 1000},
                                     {5000, 3},
                                     {96, 2, On::gpu},
                                     {256, 2, On::gpu},
                                     {96, 100, On::gpu},
                                     {256, 100, On::gpu},
                                     {17, 1000, On::gpu},
                                     {96, 1000, On::gpu},
                                     {256, 1000, On::gpu}};

class Softmax : public BackendTest {
 protected:
  std::vector<Format> formats() const {
    std::vector<Format> accepted = backend.formats;
    std::erase_if(accepted, [](Format f) { return f.kind == Format::Kind::blocked_channels; });
    return accepted;
  }

  void expect_agreement(const SoftmaxCase& c, float smoothing, bool by_id) {
    const Shape shape{c.n, {1, 1, c.classes}};
    Values z = random_values(shape.elements(), c.n), d(shape.elements()), stats(2), plain(2);
    for (float& v : z) v *= c.classes == 2 && c.n < 17 ? 2 : 8;  // few samples could have a loss near 0
    z = rounded(z, type);
    std::vector<int32_t> labels(c.n), ids(c.n);
    for (int64_t i = 0; i < c.n; ++i) {
      const auto first = z.begin() + i * c.classes;
      labels[i] = static_cast<int32_t>(i % 3 ? i * 7 % c.classes : std::max_element(first, first + c.classes) - first);
      if (i % 5 == 4) labels[i] = kExcludedLabel;
      ids[i] = static_cast<int32_t>(c.n - 1 - i);
    }
    const DeviceBatch batch{.labels = labels.data(), .ids = by_id ? ids.data() : nullptr, .size = c.n};
    std::vector<RankedClass> ranked(c.n);
    reference->softmax_cross_entropy(on_host(z, shape), batch, plain.data(), ranked.data());
    reference->softmax_cross_entropy_backward(on_host(z, shape), batch, 0.25f, smoothing, on_host(d, shape),
                                              stats.data(), Gradient::overwrite);
    each_setup(formats(), {0}, [&] {
      const auto on_labels = on_device(labels), on_ids = on_device(ids);
      const DeviceBatch on_batch{.labels = on_labels.data(), .ids = by_id ? on_ids.data() : nullptr, .size = c.n};
      const auto logits = filled(shape, z), apart = unwritten(shape);
      const auto astats = unwritten(2), only = unwritten(2), added = on_device(Values{2, 3});
      const auto on_ranked = on_device(std::vector<RankedClass>(c.n, {-1, -1}));
      ops->softmax_cross_entropy(logits.tensor(), on_batch, only.data(), on_ranked.data());
      ops->softmax_cross_entropy_backward(logits.tensor(), on_batch, 0.25f, smoothing, apart.tensor(), astats.data(),
                                          Gradient::overwrite);
      EXPECT_EQ(logits.values(), z);
      ops->softmax_cross_entropy_backward(logits.tensor(), on_batch, 0.25f, smoothing, logits.tensor(), added.data(),
                                          Gradient::add);
      expect_close({astats.values()[0]}, {stats[0]}, "loss");
      EXPECT_EQ(astats.values()[1], stats[1]);
      expect_close({only.values()[0]}, {plain[0]}, "loss alone");
      EXPECT_EQ(only.values()[1], plain[1]);
      EXPECT_EQ(on_ranked.values(), ranked);
      if (smoothing == 0) {
        EXPECT_EQ(only.values(), astats.values());
      }
      expect_close({added.values()[0]}, {astats.values()[0] + 2}, "loss added", backend.cuda() ? 0 : 1e-6);
      EXPECT_EQ(added.values()[1], astats.values()[1] + 3);
      expect_activations(apart.values(), d, "dlogits");
      EXPECT_EQ(logits.values(), apart.values()) << "in place";
      expect_zero(apart.loaded().padding, "dlogits");
      expect_zero(logits.loaded().padding, "dlogits in place");
    });
  }
};
INSTANTIATE_TEST_SUITE_P(, Softmax, ::testing::ValuesIn(backends_where(is_compared)), kBackendName);

TEST_P(Softmax, AgreesWithTheReference) {
  for (const SoftmaxCase& c : kSoftmaxCases)
    for (const float smoothing : {0.0f, 0.1f})
      for (const bool by_id : {false, true}) {
        if (!backend.runs(c.on)) continue;
        SCOPED_TRACE(fmt::format("{} x {}, smoothing {}, by id {}", c.n, c.classes, smoothing, by_id));
        expect_agreement(c, smoothing, by_id);
      }
}

// With 40 classes, several threads of a GPU share a sample, and the later maximum belongs to an earlier thread.
TEST_P(Softmax, IsSafeAtLargeLogitsAndPredictsTheFirstMaximum) {
  struct Maxima {
    int64_t classes, first, later;
  };
  for (const auto& [classes, first, later] : {Maxima{3, 1, 2}, {40, 2, 33}}) {
    const Shape shape{2, {1, 1, classes}};
    Values z(shape.elements(), -16384.0f), expected(shape.elements());
    z[0] = z[classes + first] = z[classes + later] = 16384;
    z[classes - 1] = 0;
    expected[0] = 1;
    expected[1] = -1;
    expected[classes + first] = 0.5f;
    expected[classes + later] = -0.5f;
    const std::vector<int32_t> label_of = {1, static_cast<int32_t>(later)};
    each_setup(formats(), {0}, [&] {
      const auto logits = filled(shape, z), d = unwritten(shape);
      const auto labels = on_device(label_of);
      const auto stats = unwritten(2);
      ops->softmax_cross_entropy_backward(logits.tensor(), {.labels = labels.data(), .size = 2}, 1, 0, d.tensor(),
                                          stats.data(), Gradient::overwrite);
      EXPECT_NEAR(stats.values()[0], 32768 + std::log(2), 1e-2);
      EXPECT_EQ(stats.values()[1], 0);
      EXPECT_EQ(d.values(), expected);
    });
  }
}

// Without smoothing the class adds nothing to the loss; 0 * infinity would be NaN.
TEST_P(Softmax, MinusInfinityLogitHasZeroProbability) {
  const Shape shape{1, {1, 1, 3}};
  each_setup(formats(), {0}, [&] {
    const auto logits = filled(shape, {0, -INFINITY, 0});
    const auto labels = on_device(std::vector<int32_t>{0});
    const auto stats = unwritten(2);
    ops->softmax_cross_entropy(logits.tensor(), {.labels = labels.data(), .size = 1}, stats.data(), nullptr);
    EXPECT_NEAR(stats.values()[0], std::log(2), 1e-6);
  });
}

TEST_P(Softmax, OneNanLogitMakesTheLossAndAllGradientsOfTheSampleNan) {
  for (const int64_t classes : {3, 40})
    for (const int64_t at : {int64_t{0}, int64_t{1}, classes - 1}) {
      SCOPED_TRACE(fmt::format("class {} of {}", at, classes));
      const Shape shape{2, {1, 1, classes}};
      Values z = random(shape.elements(), 1);
      z[classes + at] = NAN;
      each_setup(formats(), {0}, [&] {
        const auto logits = filled(shape, z), d = unwritten(shape);
        const auto labels = on_device(std::vector<int32_t>{0, 1});
        const auto stats = unwritten(2);
        ops->softmax_cross_entropy_backward(logits.tensor(), {.labels = labels.data(), .size = 2}, 1, 0, d.tensor(),
                                            stats.data(), Gradient::overwrite);
        EXPECT_TRUE(std::isnan(stats.values()[0]));
        const Values gradients = d.values();
        EXPECT_EQ(count_nans({gradients.begin(), gradients.begin() + classes}), 0);
        EXPECT_EQ(count_nans({gradients.begin() + classes, gradients.end()}), classes);
      });
    }
}

TEST_P(Softmax, NanLogitGivesNanLoss) {
  const Shape shape{3, {1, 1, 10}};
  each_setup(formats(), {0}, [&] {
    const auto logits = unwritten(shape);  // NaN
    const auto labels = on_device(std::vector<int32_t>{1, 3, 5});
    const auto stats = unwritten(2);
    const auto ranked = on_device(std::vector<RankedClass>(3));
    ops->softmax_cross_entropy(logits.tensor(), {.labels = labels.data(), .size = 3}, stats.data(), ranked.data());
    for (const RankedClass& of_sample : ranked.values()) EXPECT_EQ(of_sample.label_rank, 9);
    EXPECT_TRUE(std::isnan(stats.values()[0]));
    EXPECT_EQ(stats.values()[1], 0);
  });
}

struct TokenSoftmaxCase {
  int64_t n, length, classes;
  On on = On::every;
};

// A GPU gives a row to at most a warp up to 1024 classes, and to a block above.
const TokenSoftmaxCase kTokenSoftmaxCases[] = {{1, 1, 1},
                                               {3, 1, 2},
                                               {2, 5, 7},
                                               {2, 3, 16},
                                               {3, 9, 33},
                                               {5, 31, 65},
                                               {1, 70, 257},
                                               {2, 40, 300},
                                               {1, 1, 1025},
                                               {3, 2, 1500},
                                               {2, 2, 50257},
                                               {2, 129, 1027, On::cuda},
                                               {4, 256, 50257, On::gpu}};

// A sample is a row of tokens, and its loss is the mean over them.
class TokenSoftmax : public BackendTest {
 protected:
  struct Memory {
    OnDevice<int32_t> tokens, labels, ids;
  };
  // Samples 1, 5, 9 and so on are excluded.
  void draw(const TokenSoftmaxCase& c) {
    shape = {c.n, {c.length, 1, c.classes}};
    tokens.clear();
    for (int64_t i = 0; i < c.n * (c.length + 1); ++i) tokens.push_back(static_cast<int32_t>(i * 7919 % c.classes));
    labels.assign(c.n, 0);
    for (int64_t i = 1; i < c.n; i += 4) labels[i] = kExcludedLabel;
    ids.clear();
    for (int64_t i = 0; i < c.n; ++i) ids.push_back(static_cast<int32_t>(c.n - 1 - i));
  }
  Memory load() const { return {on_device(tokens), on_device(labels), on_device(ids)}; }
  DeviceBatch batch(const int32_t* of_tokens, const int32_t* of_labels, const int32_t* of_ids) const {
    return {.samples = reinterpret_cast<const uint8_t*>(of_tokens),
            .labels = of_labels,
            .ids = of_ids,
            .size = shape.n,
            .sequence_length = shape.image.h};
  }
  DeviceBatch batch(const Memory& at, bool by_id = false) const {
    return batch(at.tokens.data(), at.labels.data(), by_id ? at.ids.data() : nullptr);
  }
  DeviceBatch batch_on_host(bool by_id = false) const {
    return batch(tokens.data(), labels.data(), by_id ? ids.data() : nullptr);
  }
  int32_t label(int64_t sample, int64_t position) const { return tokens[sample * (shape.image.h + 1) + position + 1]; }

  void expect_agreement(const TokenSoftmaxCase& c, float smoothing, bool by_id) {
    draw(c);
    Values z = random_values(shape.elements(), c.n), d(shape.elements()), stats(2), plain(2);
    const float largest = c.classes < 16 ? 2 : 8;  // few classes could have a loss near 0
    for (float& v : z) v *= largest;
    for (int64_t p = 0; p < c.n * c.length; p += 2) {  // every second position is correct
      const int64_t sample = p / c.length, of = by_id ? ids[sample] : sample;
      z[p * c.classes + label(of, p % c.length)] = largest + 0.5f;
    }
    z = rounded(z, type);
    reference->softmax_cross_entropy(on_host(z, shape), batch_on_host(by_id), plain.data(), nullptr);
    reference->softmax_cross_entropy_backward(on_host(z, shape), batch_on_host(by_id), 0.25f, smoothing,
                                              on_host(d, shape), stats.data(), Gradient::overwrite);
    std::optional<std::pair<Values, Values>> first;  // stats and gradients, the same for any number of threads
    each_setup({Format{}}, {0}, [&] {
      const Memory memory = load();
      const auto logits = filled(shape, z), apart = unwritten(shape);
      const auto astats = unwritten(2), only = unwritten(2), added = on_device(Values{2, 3});
      ops->softmax_cross_entropy(logits.tensor(), batch(memory, by_id), only.data(), nullptr);
      ops->softmax_cross_entropy_backward(logits.tensor(), batch(memory, by_id), 0.25f, smoothing, apart.tensor(),
                                          astats.data(), Gradient::overwrite);
      EXPECT_EQ(logits.values(), z);
      ops->softmax_cross_entropy_backward(logits.tensor(), batch(memory, by_id), 0.25f, smoothing, logits.tensor(),
                                          added.data(), Gradient::add);
      expect_close({astats.values()[0]}, {stats[0]}, "loss");
      expect_close({astats.values()[1]}, {stats[1]}, "correct", 1e-6);
      expect_close({only.values()[0]}, {plain[0]}, "loss alone");
      EXPECT_EQ(only.values()[1], astats.values()[1]);
      expect_close(added.values(), {astats.values()[0] + 2, astats.values()[1] + 3}, "added", 1e-6);
      expect_activations(apart.values(), d, "dlogits");
      EXPECT_EQ(logits.values(), apart.values()) << "in place";
      if (!first) first = {astats.values(), apart.values()};
      EXPECT_EQ(std::pair(astats.values(), apart.values()), *first);
    });
  }

  Shape shape;
  std::vector<int32_t> tokens, labels, ids;
};
INSTANTIATE_TEST_SUITE_P(, TokenSoftmax, ::testing::ValuesIn(backends_where(is_compared)), kBackendName);

TEST_P(TokenSoftmax, AgreesWithTheReference) {
  for (const TokenSoftmaxCase& c : kTokenSoftmaxCases)
    for (const float smoothing : {0.0f, 0.1f}) {
      if (!backend.runs(c.on)) continue;
      SCOPED_TRACE(fmt::format("{} x {} x {}, smoothing {}", c.n, c.length, c.classes, smoothing));
      expect_agreement(c, smoothing, smoothing > 0);
    }
}

// 1/1000, the share of a token, is no float, so their sum is not exact.
TEST_P(TokenSoftmax, CountsTheCorrectTokensExactly) {
  draw({300, 1000, 3});
  Values z(shape.elements());
  int64_t correct = 0;
  for (int64_t p = 0; p < 300 * 1000; ++p) {
    const int32_t predicted = p % 7 == 0 ? 0 : label(p / 1000, p % 1000);
    z[3 * p + predicted] = 1;
    correct += labels[p / 1000] == 0 && predicted == label(p / 1000, p % 1000) ? 1 : 0;
  }
  each_setup({Format{}}, {0}, [&] {
    const Memory memory = load();
    const auto logits = filled(shape, z);
    const auto stats = unwritten(2);
    ops->softmax_cross_entropy(logits.tensor(), batch(memory), stats.data(), nullptr);
    EXPECT_EQ(std::lround(1000.0 * stats.values()[1]), correct);
  });
}

// The later of two equal maxima is not the prediction. In a block, it belongs to another thread.
TEST_P(TokenSoftmax, PredictsTheFirstMaximum) {
  for (const auto& [classes, first, later] :
       {std::tuple<int64_t, int32_t, int32_t>{3, 1, 2}, {40, 2, 33}, {1100, 600, 1099}, {1100, 0, 1}}) {
    SCOPED_TRACE(fmt::format("{} classes", classes));
    draw({2, 1, classes});
    labels = {0, 0};
    tokens = {0, first, 0, later};
    Values z(shape.elements(), -16384.0f), expected(shape.elements());
    for (const int64_t row : {0, 1}) {
      for (const int32_t k : {first, later}) z[row * classes + k] = 16384;
      expected[row * classes + first] = row == 0 ? -0.5f : 0.5f;
      expected[row * classes + later] = row == 0 ? 0.5f : -0.5f;
    }
    each_setup({Format{}}, {0}, [&] {
      const Memory memory = load();
      const auto logits = filled(shape, z), d = unwritten(shape);
      const auto stats = unwritten(2);
      ops->softmax_cross_entropy_backward(logits.tensor(), batch(memory), 1, 0, d.tensor(), stats.data(),
                                          Gradient::overwrite);
      EXPECT_NEAR(stats.values()[0], 2 * std::log(2), 1e-6);
      EXPECT_EQ(stats.values()[1], 1);
      EXPECT_EQ(d.values(), expected);
    });
  }
}

TEST_P(TokenSoftmax, MinusInfinityHasZeroProbabilityAndNanSpoilsItsPositionAlone) {
  for (const int64_t classes : {3, 90, 1100})
    for (const auto& [bad, at] :
         {std::pair<float, int64_t>{-INFINITY, 1}, {NAN, 0}, {NAN, 1}, {NAN, classes - 1}, {INFINITY, 1}}) {
      SCOPED_TRACE(fmt::format("{} for class {} of {}", bad, at, classes));
      draw({1, 3, classes});
      for (int32_t& token : tokens) token = static_cast<int32_t>(classes - 1);
      Values z = random(shape.elements(), 1), good(2), d(shape.elements());
      z[classes + at] = bad;
      reference->softmax_cross_entropy_backward(on_host(z, shape), batch_on_host(), 1, 0, on_host(d, shape),
                                                good.data(), Gradient::overwrite);
      each_setup({Format{}}, {0}, [&] {
        const Memory memory = load();
        const auto logits = filled(shape, z), on_d = unwritten(shape);
        const auto stats = unwritten(2);
        ops->softmax_cross_entropy_backward(logits.tensor(), batch(memory), 1, 0, on_d.tensor(), stats.data(),
                                            Gradient::overwrite);
        const Values gradients = on_d.values();
        if (bad == -INFINITY) {
          expect_close({stats.values()[0]}, {good[0]}, "loss");
          EXPECT_EQ(gradients[classes + at], 0);
          EXPECT_EQ(count_nans(gradients), 0);
        } else {
          EXPECT_TRUE(std::isnan(stats.values()[0]));
          EXPECT_EQ(count_nans({gradients.begin() + classes, gradients.begin() + 2 * classes}), classes);
          EXPECT_EQ(count_nans(gradients), classes);
        }
      });
    }
}

}  // namespace
}  // namespace ddp::testing
