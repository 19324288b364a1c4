#include "nn/init.h"

#include "nn/models.h"
#include "nn/parameters.h"
#include "tests/judge.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace ddp {
namespace {

TEST(Init, DefaultIsUniformWithPytorchsBound) {
  const auto parameters = parameters_of(make_model("lenet", {28, 28, 1}, 10));
  std::vector<float> flat(flat_count(parameters)), again(flat.size()), other(flat.size());
  initialize(flat, parameters, {}, 3);
  initialize(again, parameters, {}, 3);
  initialize(other, parameters, {}, 4);
  EXPECT_EQ(flat, again);
  EXPECT_NE(flat, other);
  const Parameter& p = parameters[2];  // 7.weight, fan-in 800
  double largest = 0, sum = 0, squares = 0;
  for (int64_t i = p.offset; i < p.offset + p.count; ++i) {
    largest = testing::worse(largest, std::abs(double{flat[i]}));
    sum += flat[i];
    squares += double{flat[i]} * flat[i];
  }
  const double bound = 1 / std::sqrt(800.0);
  EXPECT_LE(largest, bound);
  EXPECT_GT(largest, 0.999 * bound);
  EXPECT_NEAR(sum / 102400, 0, 0.01 * bound);
  EXPECT_NEAR(squares / 102400, bound * bound / 3, 0.01 * bound * bound);
}

TEST(Init, NormalHasZeroBiases) {
  const auto parameters = parameters_of(make_model("lenet", {28, 28, 1}, 10));
  std::vector<float> flat(flat_count(parameters));
  initialize(flat, parameters, {Init::Kind::normal, 0.01}, 0);
  for (const Parameter& p : parameters) {
    double squares = 0;
    for (int64_t i = p.offset; i < p.offset + p.count; ++i) squares += double{flat[i]} * flat[i];
    const double deviation = std::sqrt(squares / static_cast<double>(p.count));
    if (p.role == Parameter::Role::bias)
      EXPECT_EQ(deviation, 0) << p.name;
    else
      EXPECT_NEAR(deviation, 0.01, 0.002) << p.name;
  }
}

TEST(Init, GlorotIsUniformWithKerassBound) {
  const auto parameters = parameters_of(make_model("keras-convnet", {28, 28, 1}, 10));
  std::vector<float> flat(flat_count(parameters));
  initialize(flat, parameters, {Init::Kind::glorot, 0}, 1);
  for (const Parameter& p : parameters) {
    double largest = 0;
    for (int64_t i = p.offset; i < p.offset + p.count; ++i)
      largest = testing::worse(largest, std::abs(double{flat[i]}));
    if (p.name == "3.weight") {  // 12 x 6 x 6 to 24 x 6 x 6
      EXPECT_NEAR(largest, std::sqrt(6.0 / (36 * 12 + 36 * 24)), 1e-4);
    } else if (p.role != Parameter::Role::weight) {
      EXPECT_EQ(largest, 0) << p.name;
    }
  }
}

}  // namespace
}  // namespace ddp
