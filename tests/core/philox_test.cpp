#include "core/philox.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

namespace ddp {
namespace {

constexpr bool equal(Bits128 a, Bits128 b) { return std::equal(a.word, a.word + 4, b.word); }

// The known answers of Random123, published by the authors of Philox (kat_vectors, "philox4x32 10").
static_assert(equal(philox4x32({{0, 0, 0, 0}}, 0), {{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}}));
static_assert(equal(philox4x32({{~0u, ~0u, ~0u, ~0u}}, ~uint64_t{0}),
                    {{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}}));
static_assert(equal(philox4x32({{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}}, 0x299f31d0a4093822),
                    {{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}}));

TEST(Philox, KnownAnswersAtRunTime) {
  volatile uint32_t zero = 0;  // prevents constant folding
  const Bits128 bits = philox4x32({{zero, zero, zero, zero}}, zero);
  EXPECT_TRUE(equal(bits, {{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}}));
}

TEST(RandomStream, SeedOperationStreamAndIndexEachChangeTheNumbers) {
  using enum Operation;
  const uint64_t high = uint64_t{1} << 32;
  std::set<uint32_t> seen;
  for (uint64_t seed : {uint64_t{0}, uint64_t{1}, high})
    for (Operation operation : {initial_weights, shuffle})
      for (uint32_t stream : {0u, 1u})
        for (uint64_t index : {uint64_t{0}, uint64_t{1}, high})
          seen.insert(RandomStream(seed, operation, stream).bits(index).word[0]);
  EXPECT_EQ(seen.size(), 3u * 2 * 2 * 3);
}

TEST(RandomStream, UniformFillsTheUnitIntervalEvenly) {
  const RandomStream stream(5, Operation::initial_weights, 0);
  std::vector<int> bins(100);
  for (uint64_t i = 0; i < 100'000; ++i) {
    const float u = stream.uniform(i);
    ASSERT_GE(u, 0.0f);
    ASSERT_LT(u, 1.0f);
    ++bins[static_cast<int>(u * 100)];
  }
  double chi2 = 0;
  for (int n : bins) chi2 += (n - 1000.0) * (n - 1000.0) / 1000.0;
  EXPECT_GT(chi2, 99 - 5 * std::sqrt(2 * 99.0));
  EXPECT_LT(chi2, 99 + 5 * std::sqrt(2 * 99.0));
}

TEST(RandomStream, NormalHasTheMomentsAndTailsOfANormal) {
  const RandomStream stream(5, Operation::initial_weights, 1);
  const int n = 200'000;
  double sum = 0, square = 0, fourth = 0, product = 0, before = 0;
  int beyond2 = 0;
  for (int i = 0; i < n; ++i) {
    const double x = stream.normal(i);
    ASSERT_TRUE(std::isfinite(x));
    sum += x, square += x * x, fourth += x * x * x * x, product += x * before;
    beyond2 += std::abs(x) > 2;
    before = x;
  }
  const double sigma = 1 / std::sqrt(n);
  EXPECT_NEAR(sum / n, 0, 5 * sigma);
  EXPECT_NEAR(square / n, 1, 5 * std::sqrt(2) * sigma);
  EXPECT_NEAR(fourth / n, 3, 5 * std::sqrt(96) * sigma);
  EXPECT_NEAR(product / n, 0, 5 * sigma);
  EXPECT_NEAR(beyond2 / double{n}, 0.0455, 5 * 0.21 * sigma);
}

}  // namespace
}  // namespace ddp
