#include "nn/network.h"

#include "core/error.h"
#include "nn/models.h"
#include "nn/parameters.h"
#include "tests/expect_error.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

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
    const Network trimmed = network.trimmed();
    for (const LayerSpec& layer : trimmed.layers()) heights.push_back(layer.output.h);
    heights.push_back(trimmed.layers().front().input.h);
    return heights;
  };
  EXPECT_EQ(extents(make_model("lenet", {28, 28, 1}, 10)), (std::vector<int64_t>{24, 24, 12, 8, 8, 4, 1, 1, 1, 1, 26}));
  EXPECT_EQ(extents(Network("even", {12, 12, 1}).conv2d(2, 5).avg_pool2d(2)), (std::vector<int64_t>{8, 4, 12}));
  EXPECT_EQ(extents(Network("padded", {9, 9, 1}).conv2d(2, 3, {.padding = 1}).avg_pool2d(2)),
            (std::vector<int64_t>{9, 4, 9}));
  EXPECT_EQ(extents(Network("strided", {10, 10, 1}).conv2d(2, 3, {.stride = 2}).avg_pool2d(3)),
            (std::vector<int64_t>{3, 1, 7}));
}

// A norm takes any function, but behind a sum only a ReLU; a convolution and a linear layer take only a ReLU.
TEST(Network, FusesFunctionsIntoNorms) {
  const Activation silu{Activation::Kind::silu};
  const auto fused = [](const Network& network) { return network.layers().back().view; };
  const auto conv = [] { return Network("conv", {8, 8, 3}).conv2d(4, 3); };
  EXPECT_TRUE(fused(conv().batch_norm().activation(silu)));
  EXPECT_FALSE(fused(conv().activation(silu)));
  EXPECT_FALSE(fused(conv().batch_norm().relu().activation(silu)));
  Network sum = conv();
  const int value = sum.here();
  sum.conv2d(4, 1).batch_norm().add(value);
  EXPECT_FALSE(fused(Network(sum).activation(silu)));
  EXPECT_TRUE(fused(Network(sum).relu()));
}

TEST(Network, AnAdaptivePoolOfTheSameExtentsIsAView) {
  const Network same = Network("pool", {7, 7, 3}).adaptive_avg_pool(7, 7), other = same;
  EXPECT_TRUE(same.layers().back().view);
  EXPECT_FALSE(Network(other).adaptive_avg_pool(7, 8).layers().back().view);
}

// In a residual block the sum and the ReLU after it are fused into the norm before the sum, and into no other norm.
TEST(Network, FusesASumAndItsReluIntoTheNorm) {
  const Network network = make_model("resnet18", {28, 28, 1}, 10);
  int sums = 0;
  for (const LayerSpec& layer : network.layers()) {
    if (layer.kind == LayerSpec::Kind::add) {
      ++sums;
      const LayerSpec& norm = network.layers()[layer.from];
      EXPECT_TRUE(layer.view && norm.kind == LayerSpec::Kind::batch_norm && norm.has_relu() && norm.skip >= 0);
    }
    EXPECT_TRUE(layer.kind != LayerSpec::Kind::activation || layer.view) << layer.name;
  }
  EXPECT_EQ(sums, 8);
}

TEST(Network, DoesNotFuseAReluBeforeAFork) {
  const Network network =
      Network("pre-activation", {8, 8, 2})
          .conv2d(4, 3, {.padding = 1})
          .residual([](Network& main) { main.relu().conv2d(4, 3, {.padding = 1}); }, [](Network&) {});
  EXPECT_FALSE(network.layers()[0].has_relu());
  EXPECT_EQ(network.layers()[1].kind, LayerSpec::Kind::activation);
  EXPECT_FALSE(network.layers()[1].view);
}

// The biases in order: of the stem, of the shortcut, of the two convolutions beside it, then of three convolutions that
// are read by a sum, by a fork, and by a ReLU.
TEST(Network, KnowsTheBiasesWhoseGradientsNeedNoSum) {
  using enum LayerSpec::BiasGradient;
  const auto conv = [](Network& net) -> Network& { return net.conv2d(4, 3, {.padding = 1}); };
  Network network("biases", {8, 8, 2});
  conv(network).batch_norm().relu();
  network.residual(
      [&](Network& main) {
        conv(main).batch_norm().relu();
        conv(main).batch_norm();
      },
      [&](Network& shortcut) { conv(shortcut); });
  network.residual([&](Network& main) { conv(main); }, [](Network&) {});
  conv(network).residual([](Network& main) { main.batch_norm(); }, [](Network&) {});
  conv(network).relu().batch_norm().conv2d(4, 3, {.bias = false}).batch_norm();
  std::vector<LayerSpec::BiasGradient> found;
  for (const LayerSpec& spec : network.layers())
    if (spec.kind == LayerSpec::Kind::conv2d && spec.bias) found.push_back(spec.bias_gradient);
  EXPECT_EQ(found, (std::vector{nobody, norm, nobody, nobody, layer, layer, layer}));
}

TEST(Network, KnowsPoolsThatAloneReadTheReluOfAConvolution) {
  Network network("pools", {16, 16, 2});
  network.conv2d(4, 3).relu().avg_pool2d(2);                                           // layers 0 to 2
  network.conv2d(4, 3, {.padding = 1}).relu();                                         // 3, 4
  network.residual([](Network& main) { main.max_pool2d(3, 1, 1); }, [](Network&) {});  // 5 to 7
  network.conv2d(4, 3, {.padding = 1}).max_pool2d(3, 1, 1);                            // 8, 9
  network.conv2d(4, 3).batch_norm().relu().global_avg_pool();                          // 10 to 13
  std::vector<int> pooled, pools;
  for (const LayerSpec& spec : network.layers()) {
    if (spec.kind == LayerSpec::Kind::conv2d) pooled.push_back(spec.pooled);
    if (spec.kind == LayerSpec::Kind::pool2d) pools.push_back(spec.pooled_conv);
  }
  EXPECT_EQ(pooled, (std::vector{1, 0, 0, 0}));
  EXPECT_EQ(pools, (std::vector{0, LayerSpec::kNone, LayerSpec::kNone, LayerSpec::kNone}));
}

TEST(Network, ReadsTheWholeImageIfItStartsWithAFork) {
  const Network network = Network("forked", {28, 28, 1})
                              .residual([](Network& main) { main.conv2d(4, 3, {.stride = 2, .padding = 1}); },
                                        [](Network& shortcut) { shortcut.conv2d(4, 1, {.stride = 2}); });
  EXPECT_EQ(network.trimmed().layers().front().input.h, 28);
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
  refused([](Network& n) { n.named("a").attention(3); }, "layer a (attention) has 3 heads");
  refused([](Network& n) { n.flatten().named("wide").conv2d(3, 1, {.groups = 5}); }, "layer wide (conv2d 3@1x1) has 5");
  refused([](Network& n) { n.group_norm(2); }, "layer 0 (group norm) has 2 groups");
  refused([](Network& n) { n.here(), n.conv2d(2, 1).gate(LayerSpec::kImage); },
          "layer 1 (gate) multiplies 4x4x1 by 4x4x2");
  refused([](Network& n) { n.conv2d(1, 3).concat(LayerSpec::kImage); }, "layer 1 (concat) cannot join 4x4x1 and 2x2x1");
  refused([](Network& n) { n.class_token(); }, "layer 0 (class token) follows an image of 4x4x1; put tokens before it");
  refused([](Network& n) { n.flatten().batch_norm(); }, "layer 1 (batch norm)");
}

// Layers that know their features apart would need them in PyTorch's order.
TEST(Network, RefusesMostLayersAfterTheFlattenOfAnImage) {
  const auto refused = [](const char* layer, const Network::AddLayers& layers) {
    Network network("flat", {4, 2, 2});
    expect_error(Exit::model, {layer, "follows the flatten of an image"}, [&] { layers(network); });
  };
  refused("(layer norm)", [](Network& n) { n.flatten().layer_norm(); });
  refused("(group norm)", [](Network& n) { n.flatten().group_norm(2); });
  refused("(layer scale)", [](Network& n) { n.flatten().relu().layer_scale(1); });
  for (const bool of_both : {true, false}) {
    const auto features = [&](Network& n) -> Network& { return of_both ? n.relu() : n.linear(16); };
    const auto join = [&](Network& n, bool swapped) {
      const int flat = n.flatten().here(), other = features(n).here();
      n.from(swapped ? flat : other);
      return swapped ? other : flat;
    };
    for (const bool swapped : {false, true}) {
      refused("(concat)", [&](Network& n) { n.concat(join(n, swapped)); });
      refused("(gate)", [&](Network& n) { n.gate(join(n, swapped)); });
    }
  }
  refused("(add)", [](Network& n) {
    const int flat = n.flatten().here();
    n.linear(16).add(flat);
  });
  refused("(add)", [](Network& n) {
    const int flat = n.flatten().here();
    n.from(LayerSpec::kImage).conv2d(8, 3, {.padding = {0, 0, 0, 1}}).flatten().add(flat);  // of 2 x 1 positions
  });
  Network one("one position", {4, 2, 2});
  EXPECT_EQ(one.global_avg_pool().flatten().layer_norm().output(), (ImageShape{1, 1, 2}));
}

TEST(Network, RemembersTheImageOfAFlatten) {
  const ImageShape image{4, 2, 2};
  const auto flattened = [](const Network& network) { return network.layers().back().flattened; };
  EXPECT_EQ(flattened(Network("depth", image).flatten().dropout(0.1f).stochastic_depth(0.2f).linear(3)), image);
  Network sum("sum", image);
  const int flat = sum.flatten().here();
  sum.from(LayerSpec::kImage).relu().flatten().add(flat);
  EXPECT_EQ(flattened(Network(sum).linear(3)), image);
  EXPECT_EQ(flattened(sum.linear(5).linear(3)), (ImageShape{1, 1, 5}));
}

}  // namespace
}  // namespace ddp
