#include "nn/parameter_groups.h"

#include "nn/models.h"

#include <gtest/gtest.h>

#include <string>
#include <tuple>
#include <vector>

namespace ddp {
namespace {

TEST(ParameterGroups, MatchNamesByStars) {
  for (const char* match : {"fc.weight", "fc.*", "*", "*.weight", "*c.w*t", "f**t", "fc.weight*"})
    EXPECT_TRUE(matches(match, "fc.weight")) << match;
  for (const char* match : {"", "fc", "fc.", "*.bias", "fc.weights", "c.weight", "fc?weight", "*fc", "a*"})
    EXPECT_FALSE(matches(match, "fc.weight")) << match;
  EXPECT_TRUE(matches("*.1.*.w", "a.1.1.w.1.b.w"));
  EXPECT_TRUE(matches("", "") && matches("*", ""));
}

TEST(ParameterGroups, HeadIsTheLastLinearLayer) {
  EXPECT_EQ(head_of(parameters_of(make_model("torchvision-resnet18", {224, 224, 3}, 10))), "fc.*");
  EXPECT_EQ(head_of(parameters_of(make_model("mlp", {28, 28, 1}, 10))), "3.*");
  EXPECT_EQ(head_of(parameters_of(Network("convolution", {5, 5, 1}).conv2d(2, 5).flatten())), "");
  EXPECT_EQ(head_of(parameters_of(make_model("gpt-tiny", {8, 1, 1}, 11))), "");  // tied
}

constexpr OptimizerDesc kDesc{.momentum = 0.9f, .weight_decay = 0.5f};

// By name.
OptimizerTensor tensor_of(const std::string& name, bool all_decay, const std::vector<ParameterGroup>& groups) {
  const auto parameters = parameters_of(make_model("mlp", {28, 28, 1}, 10));
  const auto tensors = optimizer_tensors(parameters, kDesc, all_decay, groups);
  EXPECT_EQ(tensors.size(), parameters.size());
  for (size_t i = 0; i < parameters.size(); ++i) {
    EXPECT_EQ(tensors[i].offset, parameters[i].offset);
    EXPECT_EQ(tensors[i].count, parameters[i].count);
    if (parameters[i].name == name) return tensors[i];
  }
  ADD_FAILURE() << name;
  return {};
}

TEST(ParameterGroups, FirstOneThatMatchesHasTheParameter) {
  const std::vector<ParameterGroup> groups{{.match = "3.weight", .lr = 0.2, .rate = 2},
                                           {.match = "3.*", .weight_decay = 0.25, .momentum = 0.8}};
  const OptimizerTensor first = tensor_of("3.weight", true, groups), second = tensor_of("3.bias", true, groups),
                        none = tensor_of("1.bias", true, groups);
  EXPECT_EQ(std::tuple(first.rate, first.decay, first.momentum), std::tuple(2.0f, 0.5f, 0.9f));
  EXPECT_EQ(std::tuple(second.rate, second.decay, second.momentum), std::tuple(1.0f, 0.25f, 0.8f));
  EXPECT_EQ(std::tuple(none.rate, none.decay, none.momentum), std::tuple(1.0f, 0.5f, 0.9f));
}

TEST(ParameterGroups, LarsAdaptsTensorsThatMayDecay) {
  const std::vector<ParameterGroup> groups{{.match = "3.*", .weight_decay = 0}, {.match = "1.*", .weight_decay = 0.1}};
  EXPECT_FALSE(tensor_of("3.weight", true, groups).adapts);
  EXPECT_TRUE(tensor_of("1.bias", true, groups).adapts);
  const OptimizerTensor bias = tensor_of("1.bias", false, groups);
  EXPECT_EQ(bias.decay, 0);
  EXPECT_FALSE(bias.adapts);
  EXPECT_EQ(tensor_of("1.weight", false, groups).decay, 0.1f);
}

}  // namespace
}  // namespace ddp
