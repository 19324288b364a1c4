#include "nn/init.h"

#include "nn/models.h"
#include "nn/normal_quantile.h"
#include "nn/parameters.h"
#include "tests/judge.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <span>
#include <string>
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

// --init begins a table as the weights of a linear layer, and positions as the network does.
TEST(Init, OfATableFollowsTheNetworkOrTheOption) {
  Network network("reader", {6, 1, 1});
  network.named("wte").embedding(40, 500).named("wpe").position_embedding(100);
  network.tied_linear(0);
  const auto parameters = parameters_of(network);
  for (const auto& [init, table] : {std::pair(Init{}, 1.0),
                                    {Init{Init::Kind::normal, 0.01}, 0.01},
                                    {Init{Init::Kind::glorot, 0}, std::sqrt(2.0 / 540)}}) {
    std::vector<float> flat(flat_count(parameters));
    initialize(flat, parameters, init, 0);
    for (const Parameter& p : parameters) {
      double squares = 0;
      for (int64_t i = p.offset; i < p.offset + p.count; ++i) squares += double{flat[i]} * flat[i];
      const double expected = p.name == "wte.weight" ? table : 0.02;
      EXPECT_NEAR(std::sqrt(squares / static_cast<double>(p.count)), expected, 0.05 * expected) << p.name;
    }
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

TEST(Init, QuantileIsTheInverseOfTheDistribution) {
  for (double p = 1e-9; p < 1; p = p < 1e-3 ? p * 3 : p + 1e-3) {
    EXPECT_NEAR(normal_cdf(normal_quantile(p)) / p, 1, 1e-5) << p;
    EXPECT_NEAR(normal_quantile(1 - p) + normal_quantile(p), 0, 1e-6) << p;
  }
}

struct Shape {
  double mean = 0, deviation = 0, smallest = 0, largest = 0;
};

Shape shape_of(const Parameter& p, std::span<const float> flat) {
  Shape shape{.smallest = flat[p.offset], .largest = flat[p.offset]};
  double sum = 0, squares = 0;
  for (const float value : flat.subspan(p.offset, p.count)) {
    sum += value;
    squares += double{value} * value;
    shape.smallest = std::min(shape.smallest, double{value});
    shape.largest = testing::worse(shape.largest, double{value});
  }
  shape.mean = sum / static_cast<double>(p.count);
  shape.deviation = std::sqrt(squares / static_cast<double>(p.count) - shape.mean * shape.mean);
  return shape;
}

// A 5 x 5 convolution of 16 to 256 channels in 4 groups, whose fan-in is 100 and whose fan-out is 6400, as
// torch.nn.init counts it.
TEST(Init, RulesHaveTheirDeviationsAndBounds) {
  const Fans fans = fans_of(Network("one", {8, 8, 16}).conv2d(256, 5, {.groups = 4}).layers()[0]);
  EXPECT_EQ(fans.in, 100);
  EXPECT_EQ(fans.out, 6400);
  struct Case {
    InitRule rule;
    double deviation, bound;  // 0: there is no bound
  };
  const auto named = [&](const char* name) { return init_rule(name, fans).value(); };
  using enum InitRule::Kind;
  const double uniform_deviation = 1 / std::numbers::sqrt3;
  const Case cases[] = {{{}, 0.1 * uniform_deviation, 0.1},
                        {named("pytorch"), 0.1 * uniform_deviation, 0.1},
                        {{normal, 0.3}, 0.3, 0},
                        {{trunc_normal, 0.02}, 0.02, 0},
                        {{trunc_normal, 1}, 0.8796, 2},  // of the normal distribution between -2 and 2
                        {{trunc_normal, 50}, 2 * uniform_deviation, 2},
                        {{uniform, 0.3}, 0.3 * uniform_deviation, 0.3},
                        {named("kaiming_normal_fan_in"), std::sqrt(2 / 100.0), 0},
                        {named("kaiming_normal_fan_out"), std::sqrt(2 / 6400.0), 0},
                        {named("kaiming_uniform_fan_in"), std::sqrt(2 / 100.0), std::sqrt(6 / 100.0)},
                        {named("kaiming_uniform_fan_out"), std::sqrt(2 / 6400.0), std::sqrt(6 / 6400.0)},
                        {named("xavier_normal"), std::sqrt(2 / 6500.0), 0},
                        {named("xavier_uniform"), std::sqrt(2 / 6500.0), std::sqrt(6 / 6500.0)},
                        {named("zeros"), 0, 0}};
  for (const Case& c : cases) {
    Network network("one", {8, 8, 16});
    network.conv2d(256, 5, {.groups = 4}).initialized(c.rule, {constant, 0.5});
    const auto parameters = parameters_of(network);
    std::vector<float> flat(flat_count(parameters));
    initialize(flat, parameters, {}, 7);
    const Shape weight = shape_of(parameters[0], flat), bias = shape_of(parameters[1], flat);
    const std::string text = std::to_string(static_cast<int>(c.rule.kind)) + ", " + std::to_string(c.rule.value);
    EXPECT_NEAR(weight.deviation, c.deviation, 0.02 * c.deviation) << text;
    EXPECT_NEAR(weight.mean, 0, 0.03 * c.deviation) << text;
    if (c.bound > 0) {
      EXPECT_LE(std::max(weight.largest, -weight.smallest), c.bound * (1 + 1e-6)) << text;
      EXPECT_GT(std::min(weight.largest, -weight.smallest), 0.98 * c.bound) << text;
    }
    const bool far_cut = c.rule.kind == trunc_normal && c.rule.value < 1;
    EXPECT_GT(weight.largest, far_cut ? 3.5 * c.rule.value : -1) << text;
    EXPECT_EQ(bias.smallest, 0.5);
    EXPECT_EQ(bias.largest, 0.5);
    initialize(flat, parameters, {Init::Kind::normal, 0.01}, 7);  // takes the place of the network's rules
    EXPECT_NEAR(shape_of(parameters[0], flat).deviation, 0.01, 2e-4) << text;
    EXPECT_EQ(shape_of(parameters[1], flat).largest, 0) << text;
  }
  EXPECT_FALSE(init_rule("kaiming", fans));
}

TEST(Init, AttentionBeginsAsMultiheadAttention) {
  const auto parameters = parameters_of(Network("attention", {16, 1, 96}).named("heads").attention(4));
  std::vector<float> flat(flat_count(parameters));
  initialize(flat, parameters, {}, 1);
  for (const Parameter& p : parameters) {
    const Shape shape = shape_of(p, flat);
    const double bound = p.name == "heads.in_proj_weight"    ? std::sqrt(6.0 / (96 + 3 * 96))
                         : p.name == "heads.out_proj.weight" ? 1 / std::sqrt(96.0)
                                                             : 0;
    EXPECT_NEAR(shape.largest, bound, 0.01 * bound) << p.name;
    EXPECT_NEAR(shape.smallest, -bound, 0.01 * bound) << p.name;
  }
}

}  // namespace
}  // namespace ddp
