#include "nn/model_file.h"

#include "nn/parameters.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <vector>

namespace ddp {
namespace {

constexpr ImageShape kFileImage{8, 8, 3};
constexpr int64_t kFileClasses = 10;
const std::string kHead = "{ global_avg_pool = true }, { flatten = true }, { linear = \"classes\", name = \"fc\" } ]\n";

Network network_of(const std::string& text) {
  return make_model({.name = "net", .text = text}, "net.toml", kFileImage, kFileClasses);
}

// Layers before the head of a network, in line 2 and later.
Network with_head(const std::string& layers, const std::string& rest = "") {
  return network_of("layers = [\n" + layers + ",\n" + kHead + rest);
}

std::vector<std::string> names_of(const Network& network) {
  std::vector<std::string> names;
  for (const LayerSpec& layer : network.layers()) names.push_back(layer.name);
  return names;
}

const LayerSpec& layer_of(const Network& network, const std::string& name) {
  for (const LayerSpec& layer : network.layers())
    if (layer.name == name) return layer;
  throw std::runtime_error("no layer " + name);
}

const std::string& source_of(const Network& network, int value) {
  static const std::string kImageName = "image";
  return value < 0 ? kImageName : network.layers()[static_cast<size_t>(value)].name;
}

TEST(ModelFile, HasTheLayersOfTheBuilder) {
  const Network network = network_of(R"(
name = "my-net"
layers = [
  { conv2d = 8, kernel = 3, stride = 2, padding = 1, groups = 1, dilation = 1, bias = false, name = "conv" },
  { batch_norm = true, epsilon = 0.001, momentum = 0.01, scale = false, unbiased = false },
  { activation = "leaky_relu", slope = 0.2 },
  { conv2d = 8, kernel = 3, padding = "same", dilation = 2, groups = 8 },
  { group_norm = 4, epsilon = 1e-3 },
  { max_pool2d = 2 },
  { adaptive_avg_pool2d = [3, 2] },
  { tokens = true }, { class_token = true, name = "cls" }, { position_embedding = true, name = "pos" },
  { layer_norm = true },
  { linear = "3 * channels", bias = false },
  { linear = "channels / 3" },
  { attention = 2, causal = true, name = "self" },
  { layer_scale = 1e-6, name = "scale" }, { stochastic_depth = 0.1 }, { dropout = 0.5 },
  { first_token = true },
  { linear = "classes" },
]
)");
  EXPECT_EQ(network.name(), "my-net");
  EXPECT_EQ(names_of(network), (std::vector<std::string>{"conv",
                                                         "0",
                                                         "1",
                                                         "2",
                                                         "3",
                                                         "4",
                                                         "5",
                                                         "6",
                                                         "cls",
                                                         "pos",
                                                         "7",
                                                         "8",
                                                         "9",
                                                         "self.in_proj",
                                                         "self.attention",
                                                         "self.out_proj",
                                                         "scale",
                                                         "10",
                                                         "11",
                                                         "12",
                                                         "13"}));
  const LayerSpec& conv = layer_of(network, "conv");
  EXPECT_EQ(conv.output, (ImageShape{4, 4, 8}));
  EXPECT_FALSE(conv.bias);
  const LayerSpec& norm = layer_of(network, "0");
  EXPECT_EQ(norm.norm.epsilon, 0.001f);
  EXPECT_EQ(norm.norm.momentum, 0.01f);
  EXPECT_FALSE(norm.norm.scale || norm.norm.unbiased);
  EXPECT_EQ(layer_of(network, "1").activation, (Activation{Activation::Kind::leaky_relu, 0.2f}));
  const LayerSpec& depthwise = layer_of(network, "2");
  EXPECT_EQ(depthwise.output, (ImageShape{4, 4, 8}));
  EXPECT_EQ(depthwise.groups, 8);
  EXPECT_EQ(depthwise.window.dilation, 2);
  EXPECT_EQ(layer_of(network, "3").groups, 4);
  EXPECT_EQ(layer_of(network, "3").norm.epsilon, 1e-3f);
  EXPECT_EQ(layer_of(network, "4").window.stride, 2);
  EXPECT_EQ(layer_of(network, "pos").output, (ImageShape{7, 1, 8}));
  EXPECT_FALSE(layer_of(network, "8").bias);
  EXPECT_TRUE(layer_of(network, "self.attention").causal);
  EXPECT_EQ(layer_of(network, "self.attention").heads, 2);
  EXPECT_EQ(layer_of(network, "scale").initial, 1e-6f);
  EXPECT_EQ(layer_of(network, "10").rate, 0.1f);
  EXPECT_EQ(network.output(), (ImageShape{1, 1, kFileClasses}));
}

TEST(ModelFile, NamesBlocksGroupsAndCopies) {
  const std::string block = R"([blocks.unit]
layers = [ { conv2d = 4, kernel = 1 }, { layers = [ { activation = "tanh" } ], name = "act" } ]
[blocks.flat]
layers = [ { conv2d = 4, kernel = 1 } ]
)";
  EXPECT_EQ(names_of(with_head("{ block = 'unit' }, { block = 'unit', repeat = 2 }, { block = 'unit', name = 'one' },"
                               "{ block = 'unit', name = 'many', repeat = 2 }",
                               block)),
            (std::vector<std::string>{"0.0", "0.act.0", "1.0", "1.act.0", "2.0", "2.act.0", "one.0", "one.act.0",
                                      "many.0.0", "many.0.act.0", "many.1.0", "many.1.act.0", "3", "4", "fc"}));
  EXPECT_EQ(names_of(with_head("{ dropout = 0.1 }, { block = 'flat', repeat = 2, inline = true },"
                               "{ layers = [ { dropout = 0.1 } ], inline = true }, { block = 'flat', repeat = 0 },"
                               "{ block = 'flat', repeat = 2, name = 'layer_{index + 1}.x' }",
                               block)),
            (std::vector<std::string>{"0", "1", "2", "3", "layer_1.x.0", "layer_2.x.0", "4", "5", "fc"}));
  EXPECT_EQ(names_of(with_head("{ block = 'flat', repeat = 2, name = 'stage{width}_index' }", block)),
            (std::vector<std::string>{"stage8_index.0.0", "stage8_index.1.0", "0", "1", "fc"}));
}

TEST(ModelFile, GivesBlocksTheirParameters) {
  const Network network = with_head(R"(
  { block = "outer", width = "2 * channels", act = "silu", name = "a" },
  { block = "outer", width = 5, name = "b" })",
                                    R"(
[blocks.outer]
parameters = { width = "required", act = "relu", rate = 0.25 }
layers = [ { block = "inner", width = "width + 1", act = "act", rate = "index * rate / 2", repeat = 2, name = "in" },
           { conv2d = "width * height / 8", kernel = 1, name = "last" } ]
[blocks.inner]
parameters = { width = 64, act = "tanh", rate = 0 }
layers = [ { conv2d = "width", kernel = 1, name = "conv" }, { activation = "act", name = "act" },
           { stochastic_depth = "rate", name = "sd_{width}" } ]
)");
  EXPECT_EQ(names_of(network),
            (std::vector<std::string>{"a.in.0.conv", "a.in.0.act", "a.in.0.sd_7", "a.in.1.conv", "a.in.1.act",
                                      "a.in.1.sd_7", "a.last", "b.in.0.conv", "b.in.0.act", "b.in.0.sd_6",
                                      "b.in.1.conv", "b.in.1.act", "b.in.1.sd_6", "b.last", "0", "1", "fc"}));
  EXPECT_EQ(layer_of(network, "a.in.0.conv").output.c, 7);
  EXPECT_EQ(layer_of(network, "a.in.0.act").activation.kind, Activation::Kind::silu);
  EXPECT_EQ(layer_of(network, "b.in.0.act").activation.kind, Activation::Kind::relu);
  EXPECT_EQ(layer_of(network, "a.in.0.sd_7").rate, 0);
  EXPECT_EQ(layer_of(network, "a.in.1.sd_7").rate, 0.125f);
  EXPECT_EQ(layer_of(network, "b.last").output.c, 5);
}

TEST(ModelFile, ReadsDefaultsOfAKind) {
  const Network network = with_head("{ conv2d = 4, kernel = 3 }, { conv2d = 4, kernel = 1, padding = 0, bias = true }",
                                    "[defaults]\nconv2d = { padding = 1, bias = false }\n");
  EXPECT_EQ(layer_of(network, "0").output.h, 8);
  EXPECT_FALSE(layer_of(network, "0").bias);
  EXPECT_EQ(layer_of(network, "1").output.h, 8);
  EXPECT_TRUE(layer_of(network, "1").bias);
  EXPECT_TRUE(layer_of(network, "fc").bias);

  // A slope is for one function; the others do not read it.
  const Network sloped =
      with_head("{ activation = 'relu' }, { activation = 'leaky_relu' }", "[defaults.activation]\nslope = 0.2\n");
  EXPECT_TRUE(layer_of(sloped, "0").has_relu());
  EXPECT_EQ(layer_of(sloped, "1").activation, (Activation{Activation::Kind::leaky_relu, 0.2f}));
}

TEST(ModelFile, JoinsBranches) {
  const Network network = with_head(R"(
  { conv2d = 4, kernel = 1, name = "stem", label = "stem" },
  { conv2d = 2, kernel = 1, name = "left", label = "left" },
  { conv2d = 3, kernel = 1, name = "right", from = "stem", label = "right" },
  { conv2d = 5, kernel = 1, name = "image", from = "input" },
  { concat = ["left", "right"], name = "all", label = "all" },
  { layers = [ { global_avg_pool = true, name = "pool" }, { conv2d = 10, kernel = 1, name = "fc1" },
               { activation = "sigmoid", label = "scale" } ], name = "se" },
  { gate = "all", name = "gate" },
  { concat = "stem", name = "two" },
  { conv2d = 4, kernel = 1, name = "down", label = "down" },
  { add = "stem", from = "stem", name = "double" },
  { add = "down", name = "triple", label = "t" },
  { conv2d = 4, kernel = 1, name = "back", from = "scale" },
  { adaptive_avg_pool2d = 1, name = "small" },
  { gate = "t", name = "end" })");
  const auto expect_reads = [&](const std::string& name, const std::string& from, const std::string& skip) {
    const LayerSpec& layer = layer_of(network, name);
    EXPECT_EQ(source_of(network, layer.from), from) << name;
    EXPECT_EQ(source_of(network, layer.skip), skip) << name;
  };
  EXPECT_EQ(source_of(network, layer_of(network, "right").from), "stem");
  EXPECT_EQ(source_of(network, layer_of(network, "image").from), "image");
  expect_reads("all.0", "right", "image");
  expect_reads("all.1", "left", "all.0");
  EXPECT_EQ(layer_of(network, "all.1").output, (ImageShape{8, 8, 10}));
  expect_reads("gate", "all.1", "se.0");
  expect_reads("two", "stem", "gate");
  expect_reads("double", "stem", "stem");
  expect_reads("triple", "double", "down");
  EXPECT_EQ(source_of(network, layer_of(network, "back").from), "se.0");
  expect_reads("end", "triple", "small");
}

// A value with a label has other readers, so no activation is fused into it. Neither is one into the input of a block
// that reads "input"; a block that does not keeps the fusion.
TEST(ModelFile, FusesNothingIntoAValueWithOtherReaders) {
  const auto is_fused = [](const std::string& layers) {
    const Network network = with_head(layers, R"(
[blocks.skips]
layers = [ { activation = "relu", name = "relu" }, { layers = [ { add = "input" } ] } ]
[blocks.chains]
layers = [ { activation = "relu", name = "relu" }, { block = "skips" } ]
)");
    for (const LayerSpec& layer : network.layers())
      if (layer.kind == LayerSpec::Kind::activation) return layer.view;
    return false;
  };
  const std::string conv = "{ conv2d = 4, kernel = 1 }", relu = ", { activation = 'relu', name = 'a' }";
  EXPECT_TRUE(is_fused(conv + relu));
  EXPECT_FALSE(is_fused("{ conv2d = 4, kernel = 1, label = 'x' }" + relu));
  EXPECT_FALSE(is_fused(conv + ", { block = 'skips' }"));
  EXPECT_TRUE(is_fused(conv + ", { block = 'chains' }"));
}

TEST(ModelFile, TakesTheNameOfTheFile) {
  EXPECT_EQ(with_head("{ dropout = 0 }").name(), "net");
  const std::string text = "layers = [ { flatten = true }, { linear = 'classes' } ]";
  EXPECT_EQ(make_model({.name = "a\nb", .text = text}, "x", kFileImage, kFileClasses).name(), "a\\x0Ab");
}

}  // namespace
}  // namespace ddp
