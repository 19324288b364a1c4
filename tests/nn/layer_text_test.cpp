#include "nn/layer_text.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace ddp {
namespace {

Network residual() {
  Network net("net", {8, 8, 4});
  const int input = net.here();
  net.named("conv").conv2d(4, 3, {.padding = 1, .bias = false, .groups = 2, .dilation = 1});
  net.named("bn").batch_norm();
  net.named("add").add(input);
  net.named("relu").relu();
  net.named("pool").max_pool2d(3, 2, 1).named("flatten").flatten();
  net.named("fc").linear(10);
  return net;
}

TEST(LayerText, NamesTheKindAndItsNumbers) {
  std::vector<std::string> texts;
  const Network net = residual();
  for (const LayerSpec& layer : net.layers()) texts.push_back(describe(layer));
  EXPECT_EQ(texts, (std::vector<std::string>{"conv2d 4, 3 x 3, padding 1, groups 2, no bias", "batch_norm", "add",
                                             "relu", "max_pool2d 3 x 3, stride 2, padding 1", "flatten", "linear 10"}));
  Network other("other", {9, 9, 4});
  other.conv2d(8, 2, {.stride = 2, .same = true}).adaptive_avg_pool(2, 2).tokens().attention(4, true);
  EXPECT_EQ(describe(other.layers()[0]), "conv2d 8, 2 x 2, stride 2, padding 0 0 1 1");
  EXPECT_EQ(describe(other.layers()[1]), "adaptive_avg_pool2d 2 x 2");
  EXPECT_EQ(describe(other.layers()[4]), "attention of 4 heads, causal");
  Network reader("reader", {6, 1, 1});
  reader.embedding(8, 50).position_embedding(9).tied_linear(0);
  EXPECT_EQ(describe(reader.layers()[0]), "embedding 50 x 8");
  EXPECT_EQ(describe(reader.layers()[1]), "position_embedding 9 x 8");
  EXPECT_EQ(describe(reader.layers()[2]), "linear 50, no bias, tied");
}

// The sum is in the batch norm, and the ReLU behind it too.
TEST(LayerText, SaysWhatIsFusedIntoWhat) {
  const Network net = residual();
  std::vector<std::string> texts;
  for (size_t i = 0; i < net.layers().size(); ++i) texts.push_back(describe_fusion(net, static_cast<int>(i)));
  EXPECT_EQ(texts, (std::vector<std::string>{"", "", "into bn", "into bn", "", "no copy", ""}));
  EXPECT_EQ(computed_by(net, 3), 1);
  EXPECT_EQ(computed_by(net, 0), 0);
}

}  // namespace
}  // namespace ddp
