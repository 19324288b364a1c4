// The judges of other tests see a NaN, an infinity and a missing value in every place.
#include "tests/train/judge.h"

#include "tests/train/small.h"
#include "tests/values.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

namespace ddp::testing {
namespace {

// With a NaN or an infinity planted in each place alone, of the actual or of the expected values, `distance` is not
// within any bound, and with a NaN not outside of one either.
template <class T, class Distance>
void expect_seen(const std::vector<T>& values, const std::vector<int64_t>& places, Distance&& distance) {
  EXPECT_EQ(distance(values, values), 0);
  std::vector<T> other = values;
  for (const int64_t place : places) {
    for (const T bad : {std::numeric_limits<T>::quiet_NaN(), std::numeric_limits<T>::infinity()}) {
      other[place] = bad;
      for (const double d : {distance(other, values), distance(values, other)}) {
        EXPECT_FALSE(d <= 1e30) << place;
        EXPECT_FALSE(std::isnan(bad) && d >= 0) << place;
      }
    }
    other[place] = values[place];
  }
  other.pop_back();
  EXPECT_TRUE(std::isnan(distance(other, values)));
}

std::vector<int64_t> all_places(int64_t count) {
  std::vector<int64_t> places(count);
  std::iota(places.begin(), places.end(), 0);
  return places;
}

TEST(Judge, SeesNanInEveryPlaceOfATensor) {
  expect_seen(random_values(9, 1), all_places(9), [](const auto& a, const auto& b) { return distance(a, b); });
  expect_seen(random_values(9, 1), all_places(9),
              [](const auto& a, const auto& b) { return deviation(a, b).largest_error; });
}

TEST(Judge, SeesNanInEveryLoss) {
  const std::vector<double> losses = {2.3, 1e-3, 0.4, 1e-7, 2};
  expect_seen(losses, all_places(5), [](const auto& a, const auto& b) { return loss_distance(a, b); });
}

TEST(Judge, SeesNanInEveryGradient) {
  for (const Network& network : {small_network(), norm_network()}) {
    const std::vector<Parameter> parameters = parameters_of(network);
    std::vector<int64_t> places;  // the first and the last of each tensor
    for (const Parameter& p : parameters) places.insert(places.end(), {p.offset, p.offset + p.count - 1});
    expect_seen(random_values(flat_count(parameters), 1), places,
                [&](const auto& a, const auto& b) { return gradient_distance(parameters, a, b).value; });
  }
}

TEST(Judge, SeesNanInEveryRunningStatistic) {
  const std::vector<BatchNormState> norms = batch_norm_states_of(norm_network());
  const int64_t count = state_count(norms);
  expect_seen(random_values(count, 1), all_places(count),
              [&](const auto& a, const auto& b) { return stats_distance(norms, a, b).value; });
}

// A tensor with little of the norm is judged by its own norm, except in a network with norms.
TEST(Judge, SeesAWrongTensorOfASmallNorm) {
  for (const Network& network : {small_network(), norm_network()}) {
    const std::vector<Parameter> parameters = parameters_of(network);
    for (const Parameter& wrong : parameters) {
      std::vector<float> expected(flat_count(parameters), 1);
      std::fill_n(expected.begin() + wrong.offset, wrong.count, 1e-6f);
      std::vector<float> actual = expected;
      actual[wrong.offset] = 2e-6f;
      const Distance found = gradient_distance(parameters, actual, expected);
      EXPECT_EQ(found.value > 1e-3, batch_norm_states_of(network).empty()) << wrong.name;
      EXPECT_EQ(found.tensor, wrong.name);
    }
  }
}

}  // namespace
}  // namespace ddp::testing
