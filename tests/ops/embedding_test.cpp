#include "tests/ops/backend.h"

namespace ddp::testing {
namespace {

struct EmbeddingCase {
  int64_t n, length, channels, rows;
  On on = On::every;
};

// A GPU seeks an equal token in pieces of 256 positions.
const EmbeddingCase kEmbeddingCases[] = {{1, 1, 1, 1},     {1, 5, 3, 2},     {3, 7, 20, 300},
                                         {2, 16, 257, 40}, {2, 129, 64, 9},  {5, 70, 24, 1},
                                         {2, 40, 768, 50}, {2, 300, 8, 200}, {4, 1024, 8, 700, On::gpu}};

class Embedding : public BackendTest {
 protected:
  // Tokens of twice as many samples as the batch has; sample i of the batch has one of them by its id.
  void draw(const EmbeddingCase& c) {
    shape = {c.n, {c.length, 1, c.channels}};
    const Values drawn = random_values(2 * c.n * (c.length + 1), 7);
    tokens.clear();
    for (const float v : drawn) tokens.push_back(static_cast<int32_t>((v + 1) / 2 * static_cast<float>(c.rows)));
    ids.clear();
    for (int64_t i = 0; i < c.n; ++i) ids.push_back(static_cast<int32_t>(2 * c.n - 1 - 2 * i));
  }
  DeviceBatch batch(const int32_t* samples, const int32_t* of_ids) const {
    return {.samples = reinterpret_cast<const uint8_t*>(samples),
            .ids = of_ids,
            .size = shape.n,
            .sequence_length = shape.image.h};
  }

  template <class F>
  void each_case(F&& body) {
    for (const EmbeddingCase& c : kEmbeddingCases)
      for (const bool by_id : {false, true}) {
        if (!backend.runs(c.on)) continue;
        SCOPED_TRACE(fmt::format("{} x {} tokens, {} rows of {}, by id {}", c.n, c.length, c.rows, c.channels, by_id));
        draw(c);
        body(c, by_id);
      }
  }

  Shape shape;
  std::vector<int32_t> tokens, ids;
};
INSTANTIATE_TEST_SUITE_P(, Embedding, ::testing::ValuesIn(backends_where(is_compared)), kBackendName);

TEST_P(Embedding, CopiesTheRowOfEachToken) {
  each_case([&](const EmbeddingCase& c, bool by_id) {
    const Values table = random_values(c.rows * c.channels, 1);
    Values expected(shape.elements());
    reference->embedding(batch(tokens.data(), by_id ? ids.data() : nullptr), table.data(), on_host(expected, shape));
    each_setup({Format{}}, backend.offsets, [&] {
      const auto on_tokens = on_device(tokens), on_ids = on_device(ids);
      const auto on_table = on_device(table);
      const auto y = unwritten(shape);
      ops->embedding(batch(on_tokens.data(), by_id ? on_ids.data() : nullptr), on_table.data(), y.tensor());
      EXPECT_EQ(y.values(), rounded(expected, type));
    });
  });
}

// Values are small integers, so sums are exact, and equal for any number of threads.
TEST_P(Embedding, GradientSumsThePositionsOfEachToken) {
  each_case([&](const EmbeddingCase& c, bool by_id) {
    Values dy = random_values(shape.elements(), 2), given = random_values(c.rows * c.channels, 3);
    for (Values* const values : {&dy, &given})
      for (float& v : *values) v = std::round(v * 100);
    Values expected(given.size(), NAN), added = given;
    const DeviceBatch on_host_batch = batch(tokens.data(), by_id ? ids.data() : nullptr);
    reference->embedding_backward(on_host_batch, on_host(dy, shape), c.rows, expected.data(), Gradient::overwrite);
    reference->embedding_backward(on_host_batch, on_host(dy, shape), c.rows, added.data(), Gradient::add);
    each_setup({Format{}}, backend.offsets, [&] {
      const auto on_tokens = on_device(tokens), on_ids = on_device(ids);
      const auto ady = filled(shape, dy);
      const auto table = unwritten(std::ssize(given)), more = on_device(given);
      const DeviceBatch on_batch = batch(on_tokens.data(), by_id ? on_ids.data() : nullptr);
      ops->embedding_backward(on_batch, ady.tensor(), c.rows, table.data(), Gradient::overwrite);
      ops->embedding_backward(on_batch, ady.tensor(), c.rows, more.data(), Gradient::add);
      EXPECT_EQ(table.values(), expected);
      EXPECT_EQ(more.values(), added);
    });
  });
}

// In f32 each sum depends on the order of its terms: it is that of the positions, on all backends.
TEST_P(Embedding, GradientAddsThePositionsInTheirOrder) {
  const EmbeddingCase c{2, 300, 40, 3};
  draw(c);
  const Values dy = random(shape.elements(), 4);
  Values expected(c.rows * c.channels);
  for (int64_t p = 0; p < c.n * c.length; ++p)
    for (int64_t k = 0; k < c.channels; ++k)
      expected[tokens[p / c.length * (c.length + 1) + p % c.length] * c.channels + k] += dy[p * c.channels + k];
  each_setup({Format{}}, {0}, [&] {
    const auto on_tokens = on_device(tokens);
    const auto ady = filled(shape, dy);
    const auto table = unwritten(std::ssize(expected));
    ops->embedding_backward(batch(on_tokens.data(), nullptr), ady.tensor(), c.rows, table.data(), Gradient::overwrite);
    EXPECT_EQ(table.values(), expected);
  });
}

TEST_P(Embedding, NanReachesTheRowsOfItsTokenAlone) {
  const EmbeddingCase c{1, 20, 33, 4};
  draw(c);
  Values dy = random(shape.elements(), 5);
  dy[7 * c.channels + 5] = NAN;
  each_setup({Format{}}, {0}, [&] {
    const auto on_tokens = on_device(tokens);
    const auto ady = filled(shape, dy);
    const auto table = unwritten(c.rows * c.channels);
    ops->embedding_backward(batch(on_tokens.data(), nullptr), ady.tensor(), c.rows, table.data(), Gradient::overwrite);
    const Values gradient = table.values();
    EXPECT_EQ(count_nans(gradient), 1);
    EXPECT_TRUE(std::isnan(gradient[tokens[7] * c.channels + 5]));
  });
}

}  // namespace
}  // namespace ddp::testing
