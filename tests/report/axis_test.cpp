#include "report/axis.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace ddp::report {
namespace {

using Ticks = std::vector<double>;

TEST(ReportAxis, HasTicksAtRoundNumbers) {
  const Axis y({.low = 0.31, .high = 2.29, .from = 200, .to = 0, .ticks = 4, .round = true});
  EXPECT_EQ(y.ticks(), (Ticks{0, 0.5, 1, 1.5, 2, 2.5}));
  EXPECT_EQ(y.at(0), 200);
  EXPECT_EQ(y.at(2.5), 0);
  EXPECT_EQ(Axis({.low = 0, .high = 2350, .ticks = 5, .whole = true}).ticks(), (Ticks{0, 500, 1000, 1500, 2000}));
  EXPECT_EQ(Axis({.low = 0, .high = 3, .ticks = 5, .whole = true}).ticks(), (Ticks{0, 1, 2, 3}));
  EXPECT_EQ(Axis({.low = 0.001, .high = 900, .ticks = 4, .log = true}).ticks(), (Ticks{0.001, 0.1, 10}));
  EXPECT_EQ(Axis({.low = 2, .high = 30, .ticks = 4, .log = true}).ticks(), (Ticks{2, 5, 10, 20}));
}

TEST(ReportAxis, OneValueLiesInTheMiddle) {
  for (const double value : {0.0, 7.0, -1e-20, 1e30}) {
    const Axis axis({.low = value, .high = value, .from = 0, .to = 10, .ticks = 4});
    EXPECT_NEAR(axis.at(value), 5, 1e-6) << value;
    EXPECT_FALSE(axis.ticks().empty());
  }
}

TEST(ReportAxis, ExtremeRangesHaveFewTicks) {
  for (const auto& [low, high] : {std::pair(-1e30, 1e30), std::pair(1e30, 1.0000001e30), std::pair(0.0, 1e-30)}) {
    const Axis axis({.low = low, .high = high, .from = 0, .to = 10, .ticks = 4, .round = true});
    EXPECT_LE(axis.ticks().size(), 12u);
    EXPECT_TRUE(std::isfinite(axis.at(high)));
  }
}

TEST(ReportAxis, LabelsAreShort) {
  EXPECT_EQ(Axis::label(0.05), "0.05");
  EXPECT_EQ(Axis::label(2500), "2,500");
  EXPECT_EQ(Axis::label(20000), "20k");
  EXPECT_EQ(Axis::label(1'500'000), "1.5M");
  EXPECT_EQ(Axis::label(0), "0");
}

}  // namespace
}  // namespace ddp::report
