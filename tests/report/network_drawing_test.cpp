#include "report/network_drawing.h"

#include "tests/report/expect_xml.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace ddp::report {
namespace {

int count_of(const std::string& text, const std::string& part) {
  int n = 0;
  for (size_t at = 0; (at = text.find(part, at)) != text.npos; at += part.size()) ++n;
  return n;
}

// A residual block whose shortcut has a convolution, in a group of blocks, and a gate inside of it.
NetworkDrawing residual() {
  const auto box = [](const char* name, std::vector<int> inputs) {
    return LayerBox{.name = name, .what = "conv2d 8, 3 x 3", .output = "4 x 4 x 8", .size = "64", .inputs = inputs};
  };
  return {
      .title = "net",
      .subtitle = "",
      .input_shape = "4 x 4 x 3",
      .boxes = {box("conv1", {-1}), box("layer1.0.shortcut", {0}), box("layer1.0.conv1", {0}),
                box("layer1.0.conv2", {2}), box("layer1.0.gate", {3, 2}), box("layer1.0.add", {4, 1}), box("fc", {5})}};
}

TEST(NetworkDrawing, HasBoxesFramesAndBranches) {
  const std::string svg = draw_network(residual());
  expect_xml(svg);
  EXPECT_EQ(count_of(svg, "class=\"box\""), 7 + 1);  // and the image
  EXPECT_EQ(count_of(svg, "class=\"frame\""), 2);
  EXPECT_EQ(count_of(svg, ">layer1</text>"), 1);
  EXPECT_EQ(count_of(svg, ">layer1.0</text>"), 1);
  EXPECT_EQ(count_of(svg, "<tspan class=\"name\">shortcut</tspan>"), 1);
  EXPECT_EQ(count_of(svg, "class=\"flow\""), 6);    // to each box but layer1.0.conv1
  EXPECT_EQ(count_of(svg, "class=\"branch\""), 6);  // three values with a reader elsewhere: a line, and to the reader
  EXPECT_EQ(count_of(svg, "class=\"tip b\""), 3);
  EXPECT_EQ(count_of(svg, "d=\"M644 "), 2) << svg;  // from boxes of the inner frame
  EXPECT_EQ(count_of(svg, "H644\"/>"), 3) << svg;   // to them
  EXPECT_EQ(draw_network({.title = "empty", .subtitle = "", .input_shape = "1", .boxes = {}}).find("<svg "), 0u);
}

// The gate's branch is within that of the shortcut: it has the lane at the boxes.
TEST(NetworkDrawing, PutsAnInnerBranchNearerToTheBoxes) {
  const std::string svg = draw_network(residual());
  const auto lane_of = [&](size_t k) {  // of the k-th long line of a branch
    size_t at = svg.find("class=\"branch\" d=\"M");
    for (size_t n = 0;; at = svg.find("class=\"branch\" d=\"M", at + 1)) {
      const std::string line = svg.substr(at, svg.find("/>", at) - at);
      if (line.find('V') == line.npos || n++ < k) continue;
      return std::stod(line.substr(line.find('H') + 1));
    }
  };
  EXPECT_EQ(lane_of(0), lane_of(2));  // conv1 to layer1.0.conv1 ends where the gate's begins
  EXPECT_GT(lane_of(1), lane_of(2));
}

TEST(NetworkDrawing, EscapesTheTextsOfStrangers) {
  NetworkDrawing drawing = residual();
  drawing.title = "<script>&\"'\x01\xff";
  drawing.boxes[2].name = "layer1.0.<b>&";
  drawing.boxes[2].what = "<!-- ]]> " + std::string(500, 'x');
  drawing.boxes[2].output = "<x>";
  const std::string svg = draw_network(drawing);
  expect_xml(svg);
  EXPECT_EQ(svg.find("<script"), svg.npos);
  EXPECT_NE(svg.find("…"), svg.npos);
}

TEST(NetworkDrawing, KeepsNestedNamesOfStrangersInThePage) {
  std::string name = "a";
  std::vector<LayerBox> boxes;
  for (int depth = 0; depth < 200; ++depth) name += ".a";
  for (const int input : {-1, 0})
    boxes.push_back({.name = name, .what = "", .output = "", .size = "", .inputs = {input}});
  const std::string svg = draw_network({.title = "deep", .subtitle = "", .input_shape = "", .boxes = boxes});
  expect_xml(svg);
  EXPECT_EQ(svg.find("width=\"-"), svg.npos);
}

}  // namespace
}  // namespace ddp::report
