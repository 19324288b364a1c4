#include "nn/arena.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace ddp {
namespace {

// Values that are live at the same time do not overlap. The arena is at most the sum of all values and at least the
// largest live set.
TEST(Arena, LiveValuesNeverOverlap) {
  std::mt19937 random(1);
  for (int round = 0; round < 200; ++round) {
    std::vector<Lifetime> values(1 + random() % 20);
    int64_t sum = 0;
    for (Lifetime& v : values) {
      v.bytes = random() % 1000;
      v.first = static_cast<int>(random() % 20);
      v.last = v.first + static_cast<int>(random() % 10);
      sum += (v.bytes + 63) / 64 * 64;
    }
    const Arena arena = plan_arena(values);
    int64_t peak = 0;
    for (int t = 0; t < 30; ++t) {
      int64_t alive = 0;
      for (const Lifetime& v : values) alive += v.first <= t && t <= v.last ? v.bytes : 0;
      peak = std::max(peak, alive);
    }
    EXPECT_GE(arena.bytes, peak);
    EXPECT_LE(arena.bytes, sum);
    for (size_t a = 0; a < values.size(); ++a) {
      EXPECT_EQ(arena.offsets[a] % 64, 0);
      EXPECT_LE(arena.offsets[a] + values[a].bytes, arena.bytes);
      for (size_t b = 0; b < a; ++b) {
        const bool together = values[a].first <= values[b].last && values[b].first <= values[a].last;
        const bool apart = arena.offsets[a] + values[a].bytes <= arena.offsets[b] ||
                           arena.offsets[b] + values[b].bytes <= arena.offsets[a];
        EXPECT_TRUE(!together || apart);
      }
    }
  }
}

}  // namespace
}  // namespace ddp
