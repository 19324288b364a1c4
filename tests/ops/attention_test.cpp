#include "tests/ops/backend.h"

#include <map>

namespace ddp::testing {
namespace {

struct AttentionCase {
  int64_t n, tokens, width, heads;
  bool causal;
  On on = On::every;
};

const AttentionCase kAttentionCases[] = {
    {2, 1, 4, 1, false},
    {1, 1, 6, 2, true},
    {2, 5, 6, 2, false},
    {2, 5, 6, 2, true},
    {3, 17, 24, 3, false},
    {1, 64, 64, 1, true},
    {2, 65, 32, 2, false},
    {2, 65, 32, 2, true},
    {1, 50, 160, 2, false},  // heads of more than 64 values
    {1, 70, 80, 1, true},
    {1, 197, 128, 2, false, On::cpu},
    {2, 150, 128, 2, true},
    {2, 197, 128, 2, false, On::gpu},
    {1, 1024, 128, 2, true, On::gpu},
};

std::string name_of(const AttentionCase& c) {
  return fmt::format("n{}_{}x{}_heads{}{}", c.n, c.tokens, c.width, c.heads, c.causal ? "_causal" : "");
}

class Attentions : public CaseTest<AttentionCase> {
 protected:
  AttentionDesc desc() const { return {.tokens = c.tokens, .width = c.width, .heads = c.heads, .causal = c.causal}; }
  Shape shape(int64_t parts) const { return {c.n, {c.tokens, 1, parts * c.width}}; }

  // Backward gets the y of the reference, so errors do not accumulate.
  void expect_agreement(Values qkv, Values dy) {
    Values y(shape(1).elements()), dqkv(shape(3).elements());
    const auto expected = reference->attention(desc(), {});
    expected->forward(on_host(qkv, shape(3)), on_host(y, shape(1)));
    Values given_y = rounded(y, type);
    expected->backward(on_host(qkv, shape(3)), on_host(given_y, shape(1)), on_host(dy, shape(1)),
                       on_host(dqkv, shape(3)));

    std::map<std::string, Values> first;
    for (const int thread_count : backend.cuda() ? std::vector{1} : std::vector{1, 2, 3}) {
      const auto tested = make_ops(*device, backend, thread_count);
      const int64_t sizes[] = {c.n + 2, c.n};
      const auto attention = tested->attention(desc(), sizes);
      AttentionDesc without_gradients = desc();
      without_gradients.gradients = false;
      const auto inference = tested->attention(without_gradients, sizes);
      const auto aqkv = filled(shape(3), qkv), adqkv = unwritten(shape(3)), ay = unwritten(shape(1)),
                 inferred = unwritten(shape(1)), from_y = filled(shape(1), given_y), ady = filled(shape(1), dy);
      attention->forward(aqkv.tensor(), ay.tensor());
      attention->backward(aqkv.tensor(), from_y.tensor(), ady.tensor(), adqkv.tensor());
      inference->forward(aqkv.tensor(), inferred.tensor());
      expect_activations(ay.values(), y, "y");
      expect_activations(adqkv.values(), dqkv, "dqkv");
      EXPECT_EQ(inferred.values(), ay.values());
      const Values actual = ay.values();
      const auto values = qkv.begin() + 2 * c.width;  // the first token may see itself only
      if (c.causal || c.tokens == 1) {
        EXPECT_TRUE(std::equal(values, values + c.width, actual.begin()));
      }
      const std::map<std::string, Values> results = {{"y", actual}, {"dqkv", adqkv.values()}};
      if (first.empty()) first = results;
      EXPECT_EQ(results, first) << thread_count << " threads";
    }
  }
};
INSTANTIATE_TEST_SUITE_P(, Attentions, on_each_backend(kAttentionCases), kCaseName);

TEST_P(Attentions, EqualsTheReference) {
  Values qkv = random_values(shape(3).elements(), 1);
  for (float& v : qkv) v *= 2;
  expect_agreement(rounded(qkv, type), random(shape(1).elements(), 2));
}

// Scores of thousands, whose exponentials no f32 holds. They are exact, because queries and keys are small integers.
const AttentionCase kLargeScoreCases[] = {{2, 65, 32, 2, false}, {1, 70, 64, 1, true}};
class LargeScores : public Attentions {};
INSTANTIATE_TEST_SUITE_P(, LargeScores, on_each_backend(kLargeScoreCases), kCaseName);

TEST_P(LargeScores, GiveFiniteResults) {
  Values qkv = random_values(shape(3).elements(), 1);
  for (int64_t i = 0; i < std::ssize(qkv); ++i)
    if (i % (3 * c.width) < 2 * c.width) qkv[i] = std::round(60 * qkv[i]);
  expect_agreement(rounded(qkv, type), random(shape(1).elements(), 2));
}

}  // namespace
}  // namespace ddp::testing
