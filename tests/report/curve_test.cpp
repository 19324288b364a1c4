#include "report/curve.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace ddp::report {
namespace {

TEST(Curve, KeepsEveryValueWhileThereAreFew) {
  Curve curve;
  curve.add(1, 5);
  curve.add(2, -3);
  const auto points = curve.points();
  ASSERT_EQ(points.size(), 2u);
  EXPECT_EQ(points[1].x, 2);
  EXPECT_EQ(points[1].y, -3);
  EXPECT_EQ(points[1].low, -3);
  EXPECT_EQ(points[1].high, -3);
}

TEST(Curve, HasABoundedNumberOfPointsWithMeanAndRange) {
  constexpr int kValues = 1'000'003;
  Curve curve;
  for (int i = 1; i <= kValues; ++i) curve.add(i, i % 2 == 0 ? 3 : 1);
  curve.add(kValues + 1, -7);
  const auto points = curve.points();
  EXPECT_LE(points.size(), Curve::kMost);
  ASSERT_GE(points.size(), Curve::kMost / 2);
  const double width = points[0].x;  // of a point, in steps
  for (size_t i = 0; i + 1 < points.size(); ++i) {
    EXPECT_EQ(points[i].x, width * static_cast<double>(i + 1));
    EXPECT_EQ(points[i].y, 2);
    EXPECT_EQ(points[i].low, 1);
    EXPECT_EQ(points[i].high, 3);
  }
  EXPECT_EQ(points.back().x, kValues + 1);
  EXPECT_EQ(points.back().low, -7);
}

TEST(Curve, MeansAreWeighted) {
  Curve curve;
  for (int i = 0; i < 500; ++i) curve.add(2 * i, 1, 3), curve.add(2 * i + 1, 5, 1);
  EXPECT_DOUBLE_EQ(curve.mean(), 2);
  EXPECT_DOUBLE_EQ(curve.points().front().y, 2);
}

TEST(Curve, LeavesOutWhatIsNotFinite) {
  const double nan = std::nan(""), infinity = std::numeric_limits<double>::infinity();
  Curve curve;
  curve.add(1, nan);
  curve.add(2, infinity);
  curve.add(nan, 1);
  curve.add(3, 1, 0);
  curve.add(4, 1, nan);
  EXPECT_TRUE(curve.points().empty());
  EXPECT_TRUE(std::isnan(curve.mean()));
}

}  // namespace
}  // namespace ddp::report
