#include "app/run/largest_batch.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace ddp {
namespace {

TEST(LargestBatch, IsAMultipleOfEightForEachPartIfItCan) {
  EXPECT_EQ(unit_of_batches(60'000, 3), 24);
  EXPECT_EQ(unit_of_batches(24, 3), 24);
  EXPECT_EQ(unit_of_batches(23, 3), 3);
  EXPECT_EQ(unit_of_batches(2, 3), 1);
}

// Against all batches, for memory that is a line, has steps, bends, or has no end.
TEST(LargestBatch, EqualsASearchOfAllBatches) {
  const std::vector<std::function<int64_t(int64_t)>> memories{
      [](int64_t n) { return 1000 + 37 * n; },
      [](int64_t n) { return 50 + (n + 255) / 256 * 9000; },
      [](int64_t n) { return static_cast<int64_t>(900 * std::sqrt(static_cast<double>(n))); },
      [](int64_t n) { return n * n / 100; },
      [](int64_t) { return 700; },
      [](int64_t n) { return n < 777 ? 10 * n : std::numeric_limits<int64_t>::max() / 2; }};
  for (size_t m = 0; m < memories.size(); ++m)
    for (const int64_t unit : {1, 8, 24})
      for (const int64_t most : {0, 7, 24, 1000, 4099})
        for (const int64_t available : {0, 600, 1037, 20'000, 77'777, 1'000'000}) {
          int64_t expected = 0, calls = 0;
          for (int64_t n = unit; n <= most && memories[m](n) <= available; n += unit) expected = n;
          const auto counted = [&](int64_t n) {
            EXPECT_TRUE(n % unit == 0 && n > 0 && n <= most) << n;
            ++calls;
            return memories[m](n);
          };
          EXPECT_EQ(largest_batch(unit, most, available, counted), expected)
              << m << ' ' << unit << ' ' << most << ' ' << available;
          EXPECT_LE(calls, m == 0 ? 6 : 30) << m << ' ' << unit << ' ' << most << ' ' << available;
        }
}

}  // namespace
}  // namespace ddp
