#include "core/error.h"
#include "nn/arena.h"
#include "nn/init.h"
#include "nn/memory_plan.h"
#include "nn/models.h"
#include "nn/parameters.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

namespace ddp {
namespace {

TEST(Network, LenetHasTheParametersOfTheBook) {
  const auto parameters = parameters_of(make_model("lenet", {28, 28, 1}, 10));
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
  const auto parameters = parameters_of(make_model("lenet", {28, 28, 1}, 10));
  int64_t end = 0;
  for (const Parameter& p : parameters) {
    EXPECT_EQ(p.offset % 16, 0) << p.name;
    EXPECT_GE(p.offset, end) << p.name;
    EXPECT_LT(p.offset, end + 16) << p.name;
    end = p.offset + p.count;
  }
  EXPECT_EQ(flat_count(parameters), (end + 15) / 16 * 16);
}

TEST(Network, ErrorNumbersTheLayerThatDoesNotFit) {
  try {
    make_model("lenet", {8, 8, 1}, 10);
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Exit::model);
    EXPECT_NE(std::string(e.what()).find("layer 3"), std::string::npos) << e.what();
  }
}

TEST(Network, SkipsOutputsThatNoPoolingReads) {
  const auto extents = [](const Network& network) {
    std::vector<int64_t> heights;
    for (const LayerSpec& layer : network.trimmed_layers()) heights.push_back(layer.output.h);
    heights.push_back(network.trimmed_layers().front().input.h);
    return heights;
  };
  EXPECT_EQ(extents(make_model("lenet", {28, 28, 1}, 10)), (std::vector<int64_t>{24, 24, 12, 8, 8, 4, 1, 1, 1, 1, 26}));
  EXPECT_EQ(extents(Network("even", {12, 12, 1}).conv2d(2, 5).avg_pool2d(2)), (std::vector<int64_t>{8, 4, 12}));
  EXPECT_EQ(extents(Network("padded", {9, 9, 1}).conv2d(2, 3, {.padding = 1}).avg_pool2d(2)),
            (std::vector<int64_t>{9, 4, 9}));
  EXPECT_EQ(extents(Network("strided", {10, 10, 1}).conv2d(2, 3, {.stride = 2}).avg_pool2d(3)),
            (std::vector<int64_t>{3, 1, 7}));
}

// The conversion is a permutation in both directions. Spot values follow the definition of the layouts.
TEST(Parameters, ConvertToAndFromPytorchLayout) {
  const auto parameters = parameters_of(make_model("lenet", {28, 28, 1}, 10));
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
    if (p.name == "7.weight") {  // columns are 4 x 4 x 50 here, 50 x 4 x 4 in PyTorch
      const int64_t o = 90, c = 33, h = 1, w = 3;
      EXPECT_EQ(tensor[o * 800 + (c * 4 + h) * 4 + w], flat[p.offset + o * 800 + (h * 4 + w) * 50 + c]);
    }
  }
  EXPECT_EQ(back, flat);
}

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
    for (int64_t i = p.offset; i < p.offset + p.count; ++i) largest = std::max(largest, std::abs(double{flat[i]}));
    if (p.name == "3.weight") {  // 12 x 6 x 6 to 24 x 6 x 6
      EXPECT_NEAR(largest, std::sqrt(6.0 / (36 * 12 + 36 * 24)), 1e-4);
    } else if (p.role != Parameter::Role::weight) {
      EXPECT_EQ(largest, 0) << p.name;
    }
  }
}

struct Counted {
  const char* model;
  ImageShape image;
  int64_t parameters, batch_norms;  // PyTorch's counts
};

TEST(Models, ParameterCountsMatchTheirSources) {
  for (const auto& [model, image, count, batch_norms] :
       {Counted{"mlp", {28, 28, 1}, 203530, 0}, Counted{"keras-convnet", {28, 28, 1}, 49242, 3},
        Counted{"resnet18", {28, 28, 1}, 11175818, 17}, Counted{"torchvision-resnet18", {224, 224, 3}, 11181642, 20},
        Counted{"torchvision-resnet50", {224, 224, 3}, 23528522, 53}}) {
    const Network network = make_model(model, image, 10);
    EXPECT_EQ(network.name(), model);
    EXPECT_EQ(total_count(parameters_of(network)), count) << model;
    EXPECT_EQ(std::ssize(batch_norm_states_of(network)), batch_norms) << model;
  }
}

TEST(Models, LayersHaveTheNamesOfNestedModules) {
  const auto has = [](const std::vector<Parameter>& parameters, const std::string& name, std::vector<int64_t> shape) {
    return std::any_of(parameters.begin(), parameters.end(),
                       [&](const Parameter& p) { return p.name == name && p.pytorch_shape == shape; });
  };
  const auto book = parameters_of(make_model("resnet18", {28, 28, 1}, 10));
  EXPECT_TRUE(has(book, "resnet_block1.0.conv1.weight", {64, 64, 3, 3}));
  EXPECT_TRUE(has(book, "resnet_block2.0.conv3.bias", {128}));
  EXPECT_TRUE(has(book, "resnet_block4.1.bn2.weight", {512}));
  EXPECT_TRUE(has(book, "fc.1.weight", {10, 512}));
  const auto torchvision = parameters_of(make_model("torchvision-resnet50", {224, 224, 3}, 10));
  EXPECT_TRUE(has(torchvision, "layer1.0.downsample.0.weight", {256, 64, 1, 1}));
  EXPECT_TRUE(has(torchvision, "layer4.2.bn3.bias", {2048}));
  EXPECT_TRUE(has(torchvision, "fc.weight", {10, 2048}));
}

// In a residual block the sum and the ReLU after it are fused into the norm before the sum, and into no other norm.
TEST(Network, FusesASumAndItsReluIntoTheNorm) {
  const Network network = make_model("resnet18", {28, 28, 1}, 10);
  int sums = 0;
  for (const LayerSpec& layer : network.layers()) {
    if (layer.kind == LayerSpec::Kind::add) {
      ++sums;
      const LayerSpec& norm = network.layers()[layer.from];
      EXPECT_TRUE(layer.view && norm.kind == LayerSpec::Kind::batch_norm && norm.relu && norm.skip >= 0);
    }
    EXPECT_TRUE(layer.kind != LayerSpec::Kind::relu || layer.view) << layer.name;
  }
  EXPECT_EQ(sums, 8);
}

TEST(Network, DoesNotFuseAReluBeforeAFork) {
  const Network network =
      Network("pre-activation", {8, 8, 2})
          .conv2d(4, 3, {.padding = 1})
          .residual([](Network& main) { main.relu().conv2d(4, 3, {.padding = 1}); }, [](Network&) {});
  EXPECT_FALSE(network.layers()[0].relu);
  EXPECT_EQ(network.layers()[1].kind, LayerSpec::Kind::relu);
  EXPECT_FALSE(network.layers()[1].view);
}

// The columns of a linear layer refer to the image before the flatten, also with layers in between that keep the
// position of each feature.
TEST(Parameters, LinearColumnsFollowTheImageThroughDropout) {
  const Network plain = Network("plain", {3, 4, 5}).flatten().linear(2);
  const Network dropped = Network("dropped", {3, 4, 5}).flatten().dropout(0.5f).relu().linear(2);
  EXPECT_EQ(parameters_of(plain)[0].in, (ImageShape{3, 4, 5}));
  EXPECT_EQ(parameters_of(dropped)[0].in, (ImageShape{3, 4, 5}));
}

TEST(Network, ReadsTheWholeImageIfItStartsWithAFork) {
  const Network network = Network("forked", {28, 28, 1})
                              .residual([](Network& main) { main.conv2d(4, 3, {.stride = 2, .padding = 1}); },
                                        [](Network& shortcut) { shortcut.conv2d(4, 1, {.stride = 2}); });
  EXPECT_EQ(network.trimmed_layers().front().input.h, 28);
}

TEST(Network, RefusesPathsWithDifferentShapes) {
  try {
    Network("crooked", {8, 8, 2}).residual([](Network& main) { main.conv2d(4, 3); }, [](Network&) {});
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Exit::model);
    EXPECT_NE(std::string(e.what()).find("8x8x2 and 6x6x4"), std::string::npos) << e.what();
  }
}

TEST(Network, ErrorNamesTheLayerThatDoesNotFit) {
  const auto refused = [](const Network::AddLayers& layers, const char* name) {
    Network network("small", {4, 4, 1});
    try {
      layers(network);
      ADD_FAILURE() << name;
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), Exit::model);
      EXPECT_NE(std::string(e.what()).find(name), std::string::npos) << e.what();
    }
  };
  refused([](Network& n) { n.conv2d(2, 5); }, "layer 0 (conv2d 2@5x5)");
  refused([](Network& n) { n.relu().max_pool2d(5, 1); }, "layer 1 (max pool 5x5)");
  refused([](Network& n) { n.max_pool2d(2, 2, 2); }, "layer 0 (max pool 2x2)");
  refused([](Network& n) { n.named("head").avg_pool2d(6); }, "layer head (average pool 6x6)");
  refused([](Network& n) { n.flatten().linear(3).dropout(1); }, "layer 2 (dropout of 1)");
  refused([](Network& n) { n.named("head").linear(3); }, "layer head (linear 3)");
  refused([](Network& n) { n.flatten().batch_norm(); }, "layer 1 (batch norm)");
}

// Values and gradient parts that are needed at the same time do not overlap.
TEST(MemoryPlan, GradientPartsDoNotOverlap) {
  // 0 -> 1 -> 2 (+ skip 0) -> 3; stages 1 and 2 save their inputs
  const std::vector<PlannedStage> stages = {
      {.bytes = 256, .from = LayerSpec::kImage, .saves_input = true, .saves_output = true, .has_gradient = true},
      {.bytes = 256, .from = 0, .saves_input = true, .has_gradient = true},
      {.bytes = 256, .from = 1, .skip = 0, .saves_input = true, .saves_output = true, .has_gradient = true},
      {.bytes = 64, .from = 2, .saves_input = true, .has_gradient = true}};
  const MemoryPlan plan = plan_memory(128, stages);
  ASSERT_EQ(plan.gradient[0].size(), 2u);  // from stage 2 by the skip, from stage 1 by its input
  EXPECT_EQ(plan.gradient[0][0], plan.gradient[2][0]);
  EXPECT_EQ(plan.gradient[0][1], plan.from_gradient[1]);
  EXPECT_NE(plan.gradient[0][0], plan.gradient[0][1]);
  EXPECT_NE(plan.from_gradient[2], plan.gradient[2][0]);
  EXPECT_EQ(plan.from_gradient[0], -1);
  for (const int stage : {0, 1, 2}) EXPECT_NE(plan.value[stage], plan.value[(stage + 1) % 3]);
}

// Values that are live at the same time do not overlap. The arena is at most the sum of all values and at least the
// largest live set.
TEST(Arena, LiveValuesNeverOverlap) {
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
