#include "data/permutation.h"

#include "core/error.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <vector>

namespace ddp {
namespace {

std::vector<int64_t> order(uint64_t seed, int64_t epoch, int64_t size) {
  const Permutation permutation(seed, epoch, size);
  std::vector<int64_t> result(size);
  for (int64_t i = 0; i < size; ++i) result[i] = permutation(i);
  return result;
}

// Expects each count within five standard deviations of equally likely bins. Inputs are fixed, so the test cannot fail
// by chance.
void expect_uniform(const std::vector<int64_t>& counts, const char* what) {
  double total = 0, chi2 = 0;
  for (int64_t n : counts) total += static_cast<double>(n);
  const double mean = total / static_cast<double>(counts.size()), freedom = static_cast<double>(counts.size()) - 1;
  for (int64_t n : counts) chi2 += (static_cast<double>(n) - mean) * (static_cast<double>(n) - mean) / mean;
  EXPECT_NEAR(chi2, freedom, 5 * std::sqrt(2 * freedom)) << what;
}

TEST(Permutation, IsABijection) {
  for (int64_t size :
       {1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 60, 100, 255, 256, 257, 1000, 4096, 4097, 10'000, 60'000, 65'536, 65'537}) {
    std::vector<int64_t> values = order(1, 0, size);
    std::sort(values.begin(), values.end());
    for (int64_t i = 0; i < size; ++i) ASSERT_EQ(values[i], i) << "size " << size;
  }
}

TEST(Permutation, HugeSizesStayInRangeAndDoNotRepeat) {
  for (int64_t size : {int64_t{1} << 31, (int64_t{1} << 40) + 1, int64_t{1'000'000'000'000'007},
                       (int64_t{1} << 61) + 12345, int64_t{1} << 62}) {
    const Permutation permutation(1, 2, size);
    std::set<int64_t> values;
    for (int64_t i = 0; i < 2000; ++i)
      for (int64_t position : {i, size / 2 + i, size - 1 - i}) {
        const int64_t value = permutation(position);
        ASSERT_GE(value, 0);
        ASSERT_LT(value, size);
        values.insert(value);
      }
    EXPECT_EQ(values.size(), 6000u) << "size " << size;
    EXPECT_LT(*values.begin(), size / 100);
    EXPECT_GT(*values.rbegin(), size - size / 100);
  }
}

TEST(Permutation, RefusesInvalidSizes) {
  EXPECT_THROW(Permutation(1, 0, 0), Error);
  EXPECT_THROW(Permutation(1, 0, (int64_t{1} << 62) + 1), Error);
  EXPECT_THROW(Permutation(1, 0, 5)(5), Error);
  EXPECT_THROW(Permutation(1, 0, 5)(-1), Error);
}

// The order must not change, because old runs must resume. A separate Python program computed the values.
TEST(Permutation, IsTheSameOnEveryMachine) {
  EXPECT_EQ(order(1, 0, 10), (std::vector<int64_t>{3, 9, 7, 1, 2, 5, 6, 0, 8, 4}));
  EXPECT_EQ(Permutation(42, 7, 60'000)(0), 53172);
  EXPECT_EQ(Permutation(42, 7, int64_t{1} << 62)(1), 359620664276559530);
}

// Two random orders of 60000 agree in one position on average.
TEST(Permutation, OrdersOfSeedsAndEpochsAreIndependent) {
  const int64_t size = 60'000;
  const std::vector<int64_t> base = order(1, 0, size);
  std::vector<std::vector<int64_t>> others;
  for (int64_t epoch : {int64_t{1}, int64_t{2}, int64_t{1} << 32}) others.push_back(order(1, epoch, size));
  for (uint64_t seed : {uint64_t{0}, uint64_t{2}, uint64_t{1} << 32}) others.push_back(order(seed, 0, size));
  for (const std::vector<int64_t>& other : others) {
    int equal = 0;
    std::vector<int64_t> differences(100);
    for (int64_t i = 0; i < size; ++i) {
      equal += base[i] == other[i];
      ++differences[(base[i] - other[i] + size) % size * 100 / size];
    }
    EXPECT_LE(equal, 8);
    expect_uniform(differences, "differences of two orders");
  }
}

TEST(Permutation, NeighboursAreIndependent) {
  for (int64_t size : {1025, 2048, 5000, 50'001, 60'000, 65'536, 131'073}) {
    const std::vector<int64_t> values = order(3, 1, size);
    for (int64_t lag : {1, 2, 16, 128, 256}) {
      std::vector<int64_t> differences(100), pairs(100);
      for (int64_t i = 0; i + lag < size; ++i) {
        ++differences[(values[i + lag] - values[i] + size) % size * 100 / size];
        ++pairs[values[i] * 10 / size * 10 + values[i + lag] * 10 / size];
      }
      expect_uniform(differences, "differences of neighbours");
      expect_uniform(pairs, "pairs of neighbours");
    }
  }
}

TEST(Permutation, EveryValueIsEquallyLikelyInEveryPosition) {
  for (int64_t size : {2, 3, 5, 10, 16, 33, 60, 100, 513, 1000}) {
    std::vector<int64_t> first(size), middle(size), last(size);
    for (int64_t epoch = 0; epoch < 200 * size; ++epoch) {
      const Permutation permutation(9, epoch, size);
      ++first[permutation(0)];
      ++middle[permutation(size / 2)];
      ++last[permutation(size - 1)];
    }
    expect_uniform(first, "first");
    expect_uniform(middle, "middle");
    expect_uniform(last, "last");
  }
}

TEST(Permutation, EveryOrderOfFewElementsIsEquallyLikely) {
  for (int64_t size : {3, 4, 5}) {
    std::map<std::vector<int64_t>, int64_t> counts;
    const int64_t orders = size == 3 ? 6 : size == 4 ? 24 : 120;
    for (int64_t epoch = 0; epoch < 300'000; ++epoch) ++counts[order(4, epoch, size)];
    ASSERT_EQ(static_cast<int64_t>(counts.size()), orders);
    std::vector<int64_t> bins;
    for (const auto& [values, n] : counts) bins.push_back(n);
    expect_uniform(bins, "orders");
  }
}

}  // namespace
}  // namespace ddp
