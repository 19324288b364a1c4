#include "nn/flops.h"

#include "nn/models.h"

#include <gtest/gtest.h>

namespace ddp {
namespace {

TEST(Flops, CountTwoForEachMultiplyAdd) {
  const double convs = 26 * 26 * 20 * 9 + 9 * 9 * 50 * (25 * 20), linears = 4 * 4 * 50 * 128 + 128 * 10;
  EXPECT_EQ(forward_flops(make_model("lenet", {28, 28, 1}, 10)), 2 * (convs + linears));
}

// torchvision's ResNet50_Weights gives 4.089 GMAC at 224 x 224.
TEST(Flops, AreThoseOfTorchvision) {
  EXPECT_EQ(forward_flops(make_model("torchvision-resnet50", {224, 224, 3}, 1000)), 2 * 4'089'184'256.0);
}

TEST(Flops, KnowGroupsTokensAndAttention) {
  Network grouped("grouped", {4, 4, 6});
  grouped.conv2d(9, 3, {.padding = 1, .groups = 3});
  EXPECT_EQ(forward_flops(grouped), 2 * (4 * 4 * 9 * 9 * 2));
  Network tokens("tokens", {2, 3, 8});
  tokens.tokens().attention(2).layer_norm();
  const double in_proj = 6 * 24 * 8, products = 2 * 6 * 6 * 8, out_proj = 6 * 8 * 8;
  EXPECT_EQ(forward_flops(tokens), 2 * (in_proj + products + out_proj));
  Network reader("reader", {6, 1, 1});  // a row of the table is copied; the tied head multiplies
  reader.embedding(8, 50).position_embedding(9).linear(24).scaled_dot_product_attention(2, true).tied_linear(0);
  EXPECT_EQ(forward_flops(reader), 2 * (in_proj + products + 6 * 50 * 8));
}

}  // namespace
}  // namespace ddp
