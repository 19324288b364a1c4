#include "nn/freeze.h"

#include "core/error.h"
#include "nn/models.h"
#include "nn/parameters.h"
#include "tests/expect_error.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

namespace ddp {
namespace {

using Names = std::vector<std::string>;
using BiasGradient = LayerSpec::BiasGradient;

std::vector<std::string> frozen_in(const Network& network) {
  std::vector<std::string> names;
  for (const Parameter& p : parameters_of(network))
    if (!p.trained) names.push_back(p.name);
  std::ranges::sort(names);
  return names;
}

Network small(const std::string& second) {
  return Network("small", {8, 8, 1})
      .named("layer1")
      .conv2d(4, 3)
      .batch_norm()
      .relu()
      .named(second)
      .block([](Network& net) { net.named("conv").conv2d(4, 3).named("norm").batch_norm({.scale = false}); })
      .flatten()
      .named("fc")
      .linear(3);
}

TEST(Freeze, MatchesPrefixesAtDotBorders) {
  EXPECT_EQ(frozen_in(freeze(small("layer10"), Names{"layer1"})), (Names{"layer1.bias", "layer1.weight"}));
  EXPECT_EQ(frozen_in(freeze(small("layer10"), Names{"layer10.conv", "fc.bias"})),
            (Names{"fc.bias", "layer10.conv.bias", "layer10.conv.weight"}));
}

TEST(Freeze, RefusesUnknownNamesAndEverything) {
  for (const char* const wrong : {"layer", "layer2.conv.", "layer2.norm.weight", "layer2.norm.running_mean", ""})
    expect_error(Exit::usage,
                 {std::string("small has no parameter \"") + wrong +
                  "\", nor one below it; its parts are layer1, 0, layer2, fc"},
                 [&] {
                   freeze(small("layer2"), Names{"fc", wrong});
                 });
  expect_error(Exit::usage, {"all 9 parameters of small are frozen"}, [] {
    freeze(small("layer2"), Names{"layer1", "0", "layer2", "fc"});
  });
}

// The head has no tensor of its own: it is frozen with the table.
TEST(Freeze, TiedHeadFollowsItsTable) {
  const Network network = make_model("gpt-tiny", {32, 1, 1}, 257);
  const Network frozen = freeze(network, Names{"transformer.wte"});
  EXPECT_EQ(frozen_in(frozen), Names{"transformer.wte.weight"});
  EXPECT_FALSE(frozen.layers().back().trains_weight);
  EXPECT_TRUE(freeze(network, Names{"transformer.wpe"}).layers().back().trains_weight);
  expect_error(Exit::usage, {"gpt-tiny has no parameter \"lm_head\", nor one below it; its parts are transformer"},
               [&] { freeze(network, Names{"lm_head"}); });
}

// The trained parameters have the ids and places that they would have without the others. Nothing moves where nothing
// is frozen.
TEST(Freeze, PutsTrainedParametersFirst) {
  const Network network = make_model("torchvision-resnet18", {64, 64, 3}, 10);
  const Network frozen = freeze(network, Names{"conv1", "bn1", "layer1", "layer4.0.bn1", "fc.bias"});
  for (const int64_t multiple : {1, 48}) {
    const auto before = parameters_of(network, multiple), after = parameters_of(frozen, multiple);
    ASSERT_EQ(after.size(), before.size());
    std::vector<std::string> expected;
    for (const bool trained : {true, false})
      for (const Parameter& p : before) {
        const auto same = std::ranges::find(after, p.name, &Parameter::name);
        if (same->trained == trained) expected.push_back(p.name);
      }
    int64_t end = 0;
    for (size_t id = 0; id < after.size(); ++id) {
      EXPECT_EQ(after[id].name, expected[id]);
      EXPECT_GE(after[id].offset, end);
      EXPECT_LT(after[id].offset, end + 16 * multiple);
      EXPECT_EQ(after[id].offset % std::lcm(16, multiple), 0);
      end = after[id].offset + after[id].count;
    }
    EXPECT_EQ(std::ssize(trained_of(after)), 62 - 15 - 2 - 1);
    EXPECT_EQ(total_count(after), total_count(before));
    EXPECT_GE(after[trained_of(after).size()].offset, flat_count(trained_of(after), multiple));
    EXPECT_EQ(parameters_of(freeze(network, {}), multiple)[7].offset, before[7].offset);
  }
}

TEST(Freeze, PutsStatisticsOfTrainedNormsFirst) {
  const Network network = make_model("torchvision-resnet18", {64, 64, 3}, 10);
  const auto before = batch_norm_states_of(network);
  // bn2 of the last block keeps a trained scale.
  const auto after = batch_norm_states_of(
      freeze(network, Names{"bn1", "layer1", "layer4.1.bn1", "layer4.1.bn2.bias", "layer2.0.bn1"}));
  ASSERT_EQ(after.size(), before.size());
  Names frozen;
  std::vector<int> uses(state_count(before));
  for (size_t i = 0; i < after.size(); ++i) {
    EXPECT_EQ(after[i].layer_name, before[i].layer_name);
    if (!after[i].trained) frozen.push_back(after[i].layer_name);
    EXPECT_EQ(after[i].trained, after[i].span.offset < trained_state_count(after));
    for (int64_t k = 0; k < 2 * after[i].span.channels; ++k) ++uses[after[i].span.offset + k];
  }
  EXPECT_EQ(frozen, (Names{"bn1", "layer1.0.bn1", "layer1.0.bn2", "layer1.1.bn1", "layer1.1.bn2", "layer2.0.bn1",
                           "layer4.1.bn1"}));
  EXPECT_EQ(uses, std::vector<int>(state_count(after), 1));
  EXPECT_EQ(trained_state_count(after), state_count(after) - 2 * (5 * 64 + 128 + 512));
  EXPECT_EQ(trained_state_count(before), state_count(before));
}

// A frozen norm does not subtract the mean of the batch: the layer of a bias before it computes its gradient.
TEST(Freeze, GivesBiasesBeforeFrozenNormsTheirGradient) {
  const Network network = make_model("resnet18", {28, 28, 1}, 10);
  const auto gradient_of = [](const Network& net, const std::string& bias) {
    const auto parameters = parameters_of(net);
    return std::ranges::find(parameters, bias, &Parameter::name)->bias_gradient;
  };
  const Network frozen = freeze(network, Names{"1", "resnet_block2.0.bn2"});
  const Network partly = freeze(network, Names{"1.weight", "resnet_block2.0.bn2.bias"});
  EXPECT_EQ(gradient_of(network, "0.bias"), BiasGradient::nobody);
  EXPECT_EQ(gradient_of(network, "resnet_block2.0.conv3.bias"), BiasGradient::norm);
  for (const char* const bias : {"0.bias", "resnet_block2.0.conv2.bias", "resnet_block2.0.conv3.bias"}) {
    EXPECT_EQ(gradient_of(frozen, bias), BiasGradient::layer);
    EXPECT_EQ(gradient_of(partly, bias), gradient_of(network, bias));
  }
}

}  // namespace
}  // namespace ddp
