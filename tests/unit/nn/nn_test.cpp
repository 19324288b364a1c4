#include "core/error.h"
#include "nn/arena.h"
#include "nn/init.h"
#include "nn/models.h"
#include "nn/parameters.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <random>

namespace ddp {
namespace {

TEST(Network, LenetHasTheParametersOfTheBook) {
  const auto parameters = parameters_of(lenet({28, 28, 1}, 10));
  EXPECT_EQ(total_count(parameters), 129068);
  std::vector<std::string> names;
  std::vector<int64_t> counts;
  for (const Parameter& p : parameters) {
    names.push_back(p.name);
    counts.push_back(p.count);
  }
  EXPECT_EQ(names, (std::vector<std::string>{"9.weight", "9.bias", "7.weight", "7.bias", "3.weight", "3.bias",
                                             "0.weight", "0.bias"}));
  EXPECT_EQ(counts, (std::vector<int64_t>{1280, 10, 102400, 128, 25000, 50, 180, 20}));
}

TEST(Parameters, StartAtMultiplesOf64BytesWithoutOverlap) {
  const auto parameters = parameters_of(lenet({28, 28, 1}, 10));
  int64_t end = 0;
  for (const Parameter& p : parameters) {
    EXPECT_EQ(p.offset % 16, 0) << p.name;
    EXPECT_GE(p.offset, end) << p.name;
    EXPECT_LT(p.offset, end + 16) << p.name;
    end = p.offset + p.count;
  }
  EXPECT_EQ(flat_count(parameters), (end + 15) / 16 * 16);
}

TEST(Network, ALayerThatDoesNotFitIsNamed) {
  try {
    lenet({8, 8, 1}, 10);
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Exit::model);
    EXPECT_NE(std::string(e.what()).find("layer 3"), std::string::npos) << e.what();
  }
}

TEST(Network, WhatNoPoolingReadsIsNotComputed) {
  const auto extents = [](const Network& network) {
    std::vector<int64_t> heights;
    for (const LayerSpec& layer : network.trimmed_layers()) heights.push_back(layer.output.h);
    heights.push_back(network.trimmed_layers().front().input.h);
    return heights;
  };
  EXPECT_EQ(extents(lenet({28, 28, 1}, 10)), (std::vector<int64_t>{24, 24, 12, 8, 8, 4, 1, 1, 1, 1, 26}));
  EXPECT_EQ(extents(Network("even", {12, 12, 1}).conv2d(2, 5).avg_pool2d(2)), (std::vector<int64_t>{8, 4, 12}));
  EXPECT_EQ(extents(Network("padded", {9, 9, 1}).conv2d(2, 3, 1, 1).avg_pool2d(2)), (std::vector<int64_t>{9, 4, 9}));
  EXPECT_EQ(extents(Network("strided", {10, 10, 1}).conv2d(2, 3, 2).avg_pool2d(3)), (std::vector<int64_t>{3, 1, 7}));
}

// A permutation in both directions; spot values by the definition of the layouts.
TEST(Parameters, PytorchLayout) {
  const auto parameters = parameters_of(lenet({28, 28, 1}, 10));
  std::vector<float> flat(flat_count(parameters));
  for (const Parameter& p : parameters)
    std::iota(flat.begin() + p.offset, flat.begin() + p.offset + p.count, static_cast<float>(p.offset));
  std::vector<float> back(flat.size());
  for (const Parameter& p : parameters) {
    const auto tensor = to_pytorch(p, flat);
    from_pytorch(p, tensor, back);
    if (p.name == "3.weight") {  // [o][h][w][i] of 50 x 5 x 5 x 20
      const int64_t o = 7, i = 11, h = 2, w = 4;
      EXPECT_EQ(tensor[((o * 20 + i) * 5 + h) * 5 + w], flat[p.offset + ((o * 5 + h) * 5 + w) * 20 + i]);
    }
    if (p.name == "7.weight") {  // columns stand for 4 x 4 x 50 here, 50 x 4 x 4 there
      const int64_t o = 90, c = 33, h = 1, w = 3;
      EXPECT_EQ(tensor[o * 800 + (c * 4 + h) * 4 + w], flat[p.offset + o * 800 + (h * 4 + w) * 50 + c]);
    }
  }
  EXPECT_EQ(back, flat);
}

TEST(Init, DefaultIsUniformWithPytorchsBound) {
  const auto parameters = parameters_of(lenet({28, 28, 1}, 10));
  std::vector<float> flat(flat_count(parameters)), again(flat.size()), other(flat.size());
  initialize(flat, parameters, {}, 3);
  initialize(again, parameters, {}, 3);
  initialize(other, parameters, {}, 4);
  EXPECT_EQ(flat, again);
  EXPECT_NE(flat, other);
  const Parameter& p = parameters[2];  // 7.weight, fan-in 800
  double largest = 0, sum = 0, squares = 0;
  for (int64_t i = p.offset; i < p.offset + p.count; ++i) {
    largest = std::max(largest, std::abs(double{flat[i]}));
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
  const auto parameters = parameters_of(lenet({28, 28, 1}, 10));
  std::vector<float> flat(flat_count(parameters));
  initialize(flat, parameters, {Init::Kind::normal, 0.01}, 0);
  for (const Parameter& p : parameters) {
    double squares = 0;
    for (int64_t i = p.offset; i < p.offset + p.count; ++i) squares += double{flat[i]} * flat[i];
    const double deviation = std::sqrt(squares / static_cast<double>(p.count));
    if (p.bias)
      EXPECT_EQ(deviation, 0) << p.name;
    else
      EXPECT_NEAR(deviation, 0.01, 0.002) << p.name;
  }
}

// Values that live at the same time never overlap, and the arena is no larger than the sum and no smaller than the
// largest set alive.
TEST(Arena, NeverOverlaps) {
  std::mt19937 random(1);
  for (int round = 0; round < 200; ++round) {
    std::vector<Lifetime> values(1 + random() % 20);
    int64_t sum = 0;
    for (Lifetime& v : values) {
      v.bytes = random() % 1000;
      v.first = static_cast<int>(random() % 20);
      v.last = v.first + static_cast<int>(random() % 10);
      sum += (v.bytes + 63) / 64 * 64;
    }
    const Arena arena = plan_arena(values);
    int64_t peak = 0;
    for (int t = 0; t < 30; ++t) {
      int64_t alive = 0;
      for (const Lifetime& v : values) alive += v.first <= t && t <= v.last ? v.bytes : 0;
      peak = std::max(peak, alive);
    }
    EXPECT_GE(arena.bytes, peak);
    EXPECT_LE(arena.bytes, sum);
    for (size_t a = 0; a < values.size(); ++a) {
      EXPECT_EQ(arena.offsets[a] % 64, 0);
      EXPECT_LE(arena.offsets[a] + values[a].bytes, arena.bytes);
      for (size_t b = 0; b < a; ++b) {
        const bool together = values[a].first <= values[b].last && values[b].first <= values[a].last;
        const bool apart = arena.offsets[a] + values[a].bytes <= arena.offsets[b] ||
                           arena.offsets[b] + values[b].bytes <= arena.offsets[a];
        EXPECT_TRUE(!together || apart);
      }
    }
  }
}

}  // namespace
}  // namespace ddp
