#include "app/commands/predict/draw_token.h"

#include "core/philox.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <vector>

namespace ddp {
namespace {

const std::vector<float> kLogits{1, 3, -2, 3, 0.5f};

TEST(DrawToken, TakesTheMostProbableOneAtATemperatureOf0) {
  for (const double number : {0.0, 0.5, 0.999}) {
    EXPECT_EQ(draw_token(kLogits, {.temperature = 0}, number), 1);  // the first of two equal ones
    EXPECT_EQ(draw_token(kLogits, {.temperature = 0, .top_k = 2}, number), 1);
    EXPECT_EQ(draw_token(kLogits, {.temperature = 5, .top_k = 1}, number), 1);
  }
}

TEST(DrawToken, GivesEachTokenItsShare) {
  constexpr int kDraws = 100'000;
  for (const double temperature : {0.5, 1.0, 2.0}) {
    std::vector<int> counts(kLogits.size());
    for (int i = 0; i < kDraws; ++i) ++counts[draw_token(kLogits, {.temperature = temperature}, (i + 0.5) / kDraws)];
    double sum = 0;
    for (const float logit : kLogits) sum += std::exp(logit / temperature);
    for (size_t k = 0; k < kLogits.size(); ++k)
      EXPECT_NEAR(counts[k] / double{kDraws}, std::exp(kLogits[k] / temperature) / sum, 2.0 / kDraws) << k;
  }
}

TEST(DrawToken, LeavesOutTheOthersWithTopK) {
  std::set<int32_t> drawn;
  for (int i = 0; i < 100; ++i) drawn.insert(draw_token(kLogits, {.temperature = 100, .top_k = 3}, i / 100.0));
  EXPECT_EQ(drawn, (std::set<int32_t>{0, 1, 3}));
  for (int i = 0; i < 100; ++i)  // more than there are: all
    EXPECT_EQ(draw_token(kLogits, {.top_k = 9}, i / 100.0), draw_token(kLogits, {}, i / 100.0));
}

TEST(DrawToken, StandsTheEndsOfItsRanges) {
  const std::vector<float> far{-3e38f, 3e38f, 0};
  EXPECT_EQ(draw_token(far, {}, 0), 1);
  EXPECT_EQ(draw_token(far, {.temperature = 1e-300}, 1 - 0x1p-53), 1);
  EXPECT_EQ(draw_token(std::vector<float>{0, -200}, {}, 1 - 0x1p-53), 0);
  EXPECT_EQ(draw_token(std::vector<float>{7}, {.top_k = 1}, 0.5), 0);
}

TEST(NumberOfDraw, IsAFunctionOfSeedTextAndToken) {
  std::set<double> numbers;
  for (const uint64_t seed : {0, 1})
    for (const int64_t text : {0, 1})
      for (const int64_t token : {0, 1, 2}) {
        const double number = number_of_draw(seed, text, token);
        EXPECT_TRUE(number >= 0 && number < 1) << number;
        EXPECT_EQ(number, number_of_draw(seed, text, token));
        numbers.insert(number);
      }
  EXPECT_EQ(numbers.size(), 12u);
  // The counter is the token, the text and the operation; the key is the seed. A number has 53 bits.
  const Bits128 random = philox4x32({{3, 1, 2, 12}}, 5);
  EXPECT_EQ(number_of_draw(5, 2, (int64_t{1} << 32) + 3), random.word[0] * 0x1p-32 + (random.word[1] >> 11) * 0x1p-53);
}

}  // namespace
}  // namespace ddp
