#include "nn/models.h"

#include "nn/parameters.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace ddp {
namespace {

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

// The head has no tensor of its own.
TEST(Models, Gpt2HasTheParametersOfItsName) {
  for (const int64_t tokens : {1024, 256}) {
    const auto gpt2 = parameters_of(make_model("gpt2-124m", {tokens, 1, 1}, 50257));
    EXPECT_EQ(total_count(gpt2), 124'439'808);
    EXPECT_EQ(gpt2.back().name, "transformer.wte.weight");
    EXPECT_EQ(gpt2[gpt2.size() - 2].pytorch_shape, (std::vector<int64_t>{1024, 768}));
    EXPECT_EQ(std::ranges::count(gpt2, 50257 * 768, &Parameter::count), 1);
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

}  // namespace
}  // namespace ddp
