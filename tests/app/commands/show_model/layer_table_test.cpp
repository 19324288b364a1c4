#include "app/commands/show_model/layer_table.h"

#include "app/commands/show_model/network_boxes.h"
#include "nn/flops.h"
#include "nn/freeze.h"
#include "nn/models.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace ddp {
namespace {

TEST(LayerTable, HasALineForEachLayerAndTheTotals) {
  const std::vector<std::string> frozen{"0"};
  const std::string text = layer_table(freeze(make_model("lenet", {28, 28, 1}, 10), frozen));
  EXPECT_EQ(text.substr(0, text.find('\n', text.find('\n') + 1) + 1),
            "layer  kind                        input         output        parameters  MFLOP    KiB  fused\n"
            "0      conv2d 20, 3 x 3            28 x 28 x 1   26 x 26 x 20         200  0.243   52.8\n")
      << text;
  EXPECT_NE(text.find("into 0\n"), std::string::npos) << text;
  EXPECT_NE(text.find("\n\n10 layers; 129068 parameters, of which 128868 are trained and 200 are frozen\n"
                      "forward pass of an image: 0.004501 GFLOP (0.00225 GMAC), outputs of 0.1 MiB in f32\n"),
            std::string::npos)
      << text;
}

TEST(LayerTable, CountsATableThatTheHeadShares) {
  constexpr double kTokens = 1024, kWidth = 768, kGpt2Tokens = 50257, kBlocks = 12;
  const Network network = make_model("gpt2-124m", {1024, 1, 1}, 50257);
  const std::string text = layer_table(network);
  EXPECT_NE(text.find(" layers; 124439808 parameters, of which 124439808 are trained and 0 are frozen\n"
                      "forward pass of a sequence: 291.6 GFLOP"),
            std::string::npos)
      << text;
  const double of_token = kBlocks * (12 * kWidth * kWidth + 2 * kTokens * kWidth) + kWidth * kGpt2Tokens;
  EXPECT_EQ(forward_flops(network), 2 * kTokens * of_token);
  const report::NetworkDrawing drawing = drawing_of(network);
  EXPECT_EQ(drawing.input_name + " " + drawing.input_shape, "tokens 1,024");
}

// Of a residual block: the sum and the ReLU are in the second batch norm, which reads the shortcut.
TEST(NetworkBoxes, HaveWhatIsFusedIntoThem) {
  const report::NetworkDrawing drawing = drawing_of(make_model("resnet18", {32, 32, 3}, 10));
  int sums = 0;
  for (const report::LayerBox& box : drawing.boxes) {
    EXPECT_FALSE(box.inputs.empty());
    for (const int input : box.inputs) EXPECT_LT(input, static_cast<int>(&box - drawing.boxes.data()));
    if (box.what != "batch_norm + add + relu") continue;
    ++sums;
    EXPECT_EQ(box.inputs.size(), 2u);
  }
  EXPECT_EQ(sums, 8);
  EXPECT_EQ(drawing.input_shape, "32 x 32 x 3");
}

}  // namespace
}  // namespace ddp
