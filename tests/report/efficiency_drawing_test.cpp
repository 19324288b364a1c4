#include "report/efficiency_drawing.h"

#include "tests/report/expect_xml.h"

#include <gtest/gtest.h>

#include <string>

namespace ddp::report {
namespace {

TEST(EfficiencyDrawing, HasAPointForEachNumberOfRanks) {
  const EfficiencyDrawing drawing{.title = "net <&> \"\xff",
                                  .subtitle = "a & b",
                                  .curves = {{.name = "predicted", .points = {{1, 1}, {2, 0.9}, {4, 0.5}}},
                                             {.name = "simulated", .points = {{1, 1}}}}};
  const std::string text = draw_efficiency(drawing);
  expect_xml(text);
  EXPECT_NE(text.find("net &lt;&amp;&gt;"), text.npos);
  EXPECT_NE(text.find("<title>predicted, 2 ranks: 90.0 %</title>"), text.npos) << text;
  EXPECT_NE(text.find("<title>simulated, 1 ranks: 100.0 %</title>"), text.npos) << text;
  // 1 to 4 ranks from 64 to 616, 0 to 100 % from 308 to 76.
  EXPECT_NE(text.find("points=\"64,76 340,99.2 616,192 \""), text.npos) << text;
}

// The last number of ranks has a label, and labels do not overlap.
TEST(EfficiencyDrawing, LabelsTheLastNumberOfRanks) {
  const auto drawn = [](double ranks) {
    return draw_efficiency({.title = "", .subtitle = "", .curves = {{.name = "", .points = {{1, 1}, {ranks, 0.5}}}}});
  };
  const std::string thousand = drawn(1000), large = drawn(1 << 16), next = drawn(1025);
  EXPECT_NE(thousand.find(">512</text>"), thousand.npos) << thousand;
  EXPECT_NE(thousand.find("<text x=\"616\" y=\"328\">1,000</text>"), thousand.npos) << thousand;
  EXPECT_NE(large.find(">65,536</text>"), large.npos) << large;
  EXPECT_NE(large.find(">16,384</text>"), large.npos) << large;
  EXPECT_EQ(large.find(">32,768</text>"), large.npos) << large;
  EXPECT_EQ(next.find(">1,024</text>"), next.npos) << next;
}

TEST(EfficiencyDrawing, OfOneRank) { expect_xml(draw_efficiency({.title = "", .subtitle = "", .curves = {}})); }

}  // namespace
}  // namespace ddp::report
