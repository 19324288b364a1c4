// How bytes are shared out over lanes and chunks: pure functions.
#include "comm/shm/pieces.h"

#include <gtest/gtest.h>

#include <numeric>
#include <utility>
#include <vector>

namespace ddp {
namespace {

using LaneAndChunk = std::pair<int, int>;

// The lane and chunk of each byte; every byte must have exactly one.
std::vector<LaneAndChunk> owners(int lanes, int hosts, int64_t bytes,
                                 const std::function<void(Pieces&, int lane)>& cut) {
  std::vector<LaneAndChunk> owner(bytes, {-1, -1});
  for (int lane = 0; lane < lanes; ++lane) {
    Pieces pieces;
    cut(pieces, lane);
    EXPECT_EQ(pieces.hosts(), hosts);
    for (int chunk = 0; chunk < hosts; ++chunk)
      for (const Piece& piece : pieces.chunk(chunk)) {
        EXPECT_GT(piece.bytes, 0);
        EXPECT_LE(piece.bytes, pieces.largest());
        EXPECT_LE(std::ssize(pieces.chunk(chunk)), pieces.longest());
        for (int64_t i = piece.begin; i < piece.begin + piece.bytes; ++i) {
          EXPECT_EQ(owner.at(i), LaneAndChunk(-1, -1)) << i;
          owner.at(i) = {lane, chunk};
        }
      }
  }
  for (int64_t i = 0; i < bytes; ++i) EXPECT_GE(owner[i].first, 0) << i;
  return owner;
}

TEST(HostLayout, NumbersHostsByTheirLowestRank) {
  const HostLayout layout({7, 3, 3, 7, 7});
  EXPECT_EQ(layout.host, (std::vector<int>{0, 1, 1, 0, 0}));
  EXPECT_EQ(layout.local, (std::vector<int>{0, 0, 1, 1, 2}));
  EXPECT_EQ(layout.hosts, 2);
  EXPECT_EQ(layout.lanes, 2);
  EXPECT_EQ(layout.ranks_on(0), 3);
}

TEST(Pieces, LaneAndChunkOfAByteFollowFromItsPlace) {
  for (const int lanes : {1, 2, 3})
    for (const int hosts : {1, 2, 3}) {
      const BlockRule rule{.bytes = 64, .lanes = lanes, .hosts = hosts};
      const auto from = [&](int64_t offset, int64_t bytes) {
        return owners(lanes, hosts, bytes, [&](Pieces& p, int lane) { p.cut_blocks(rule, lane, offset, bytes); });
      };
      const auto whole = from(0, 3000);
      for (const int64_t begin : {1, 63, 64, 700})
        for (const int64_t bytes : {0, 1, 64, 65, 1999})
          EXPECT_EQ(from(begin, bytes),
                    std::vector<LaneAndChunk>(whole.begin() + begin, whole.begin() + begin + bytes));
    }
}

TEST(Pieces, BlocksAreSharedOutEvenly) {
  const BlockRule rule{.bytes = 64, .lanes = 2, .hosts = 3};
  for (int lane = 0; lane < 2; ++lane) {
    Pieces pieces;
    pieces.cut_blocks(rule, lane, 64 * 5, 64 * 60);
    for (int chunk = 0; chunk < 3; ++chunk) EXPECT_EQ(std::ssize(pieces.chunk(chunk)), 10);
  }
}

TEST(Pieces, APartBelongsToTheLaneAndTheHostOfItsRank) {
  const HostLayout layout({0, 1, 1, 0, 0});
  const BlockRule rule{.bytes = 64, .lanes = layout.lanes, .hosts = layout.hosts};
  constexpr int64_t kPart = 100;
  for (const auto& [begin, bytes] : {std::pair<int64_t, int64_t>{0, 500}, {150, 101}, {99, 2}, {0, 0}}) {
    const auto found =
        owners(2, 2, bytes, [&](Pieces& p, int lane) { p.cut_parts(rule, layout, lane, kPart, begin, bytes); });
    for (int64_t i = 0; i < bytes; ++i) {
      const int64_t rank = (begin + i) / kPart;
      EXPECT_EQ(found[i], LaneAndChunk(layout.local[rank] % 2, layout.host[rank])) << begin + i;
    }
  }
  Pieces pieces;
  pieces.cut_parts(rule, layout, 0, kPart, 0, 500);
  EXPECT_EQ(pieces.chunk(0).back().owner, 2);  // rank 4, which has no lane
}

}  // namespace
}  // namespace ddp
