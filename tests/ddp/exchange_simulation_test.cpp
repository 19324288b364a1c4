#include "ddp/exchange_simulation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace ddp {
namespace {

constexpr Link kLink{.latency_ms = 0.7, .ms_per_byte = 1 / kPieceBytes};

// All hosts join at once: the ring takes what the formula says, on each host.
TEST(ExchangeSimulation, RingTakesTheTimeOfTheFormula) {
  for (const int64_t hosts : {2, 3, 16})
    for (const double pieces : {0.1, 1.0, 5.0, 40.0})
      for (const bool in_pieces : {false, true}) {
        const double bytes = pieces * kPieceBytes * static_cast<double>(hosts);
        LinkEnds ends(hosts);
        const int64_t steps = 2 * (hosts - 1);
        const std::vector<double> done =
            simulate_ring(kLink, std::vector<double>(static_cast<size_t>(hosts)), steps, bytes, in_pieces, ends);
        for (const double ms : done)
          EXPECT_NEAR(ms, ring_ms(kLink, hosts, steps, bytes, in_pieces), 1e-9) << hosts << " " << pieces;
      }
}

// Whole chunks, which take 1 ms of a link and arrive 0.7 ms later. Host 1 joins at 5 ms with two chunks received, and
// sends three in a row. The last one of the ring follows from its first: 5 + 4 * 1.7.
TEST(ExchangeSimulation, RingWaitsForALateHost) {
  LinkEnds ends(3);
  const std::vector<double> done = simulate_ring(kLink, {0, 5, 0}, 4, 3 * kPieceBytes, false, ends);
  EXPECT_NEAR(done[0], 10.4, 1e-9);
  EXPECT_NEAR(done[1], 11.1, 1e-9);
  EXPECT_NEAR(done[2], 11.8, 1e-9);
}

// Each of two hosts is the root of one tree, and its link sends one piece up and one down. Host 1 joins at 3 ms: its
// piece up arrives at 4.7, its piece down at 5.7, and the one that comes down to it at 4.7 + 1.7.
TEST(ExchangeSimulation, TreeOfTwoHosts) {
  LinkEnds ends(2);
  const std::vector<double> done = simulate_tree(kLink, {0, 3}, 2 * kPieceBytes, ends);
  EXPECT_NEAR(done[0], 5.7, 1e-9);
  EXPECT_NEAR(done[1], 6.4, 1e-9);
}

TEST(ExchangeSimulation, TreeTakesAboutTheTimeOfTheFormula) {
  for (const int64_t hosts : {2, 3, 6, 16, 128})
    for (const double pieces : {1.0, 20.0, 100.0}) {
      const double bytes = 2 * pieces * kPieceBytes;
      LinkEnds ends(hosts);
      const std::vector<double> done =
          simulate_tree(kLink, std::vector<double>(static_cast<size_t>(hosts)), bytes, ends);
      const double latest = *std::ranges::max_element(done);
      EXPECT_GT(*std::ranges::min_element(done), 0) << hosts;
      const double tolerance = hosts == 3 || hosts == 6 ? 0.35 : 0.1;  // not all levels of the tree are full
      EXPECT_NEAR(latest / tree_ms(kLink, hosts, bytes), 1, tolerance) << hosts << " hosts, " << pieces << " pieces";
    }
}

}  // namespace
}  // namespace ddp
