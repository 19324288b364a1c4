#include "comm/broadcast_host.h"

#include "tests/comm/ranks.h"

#include <gtest/gtest.h>

#include <array>
#include <limits>

namespace ddp {
namespace {

TEST(BroadcastHost, GivesEveryRankTheBitsOfRank0) {
  using Limits = std::numeric_limits<int64_t>;
  const std::array<int64_t, 7> expected{0, -1, 1, Limits::max(), Limits::min(), int64_t{1} << 53, 0x123456789abcdef};
  for (const int size : {1, 2, 5})
    run_ranks(size, [&](Communicator& c) {
      std::array<int64_t, 7> values = expected;
      if (c.rank() != 0) values.fill(c.rank() * 12345);
      broadcast_host(c, values);
      EXPECT_EQ(values, expected) << "rank " << c.rank() << " of " << size;
      broadcast_host(c, std::span<int64_t>());
    });
}

}  // namespace
}  // namespace ddp
