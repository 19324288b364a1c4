#include "ddp/cluster.h"

#include <gtest/gtest.h>

namespace ddp {
namespace {

constexpr double kPiece = kPieceBytes;

TEST(Cluster, CountsItsHosts) {
  EXPECT_EQ((Cluster{.ranks = 1024, .ranks_per_host = 8}).hosts(), 128);
  EXPECT_EQ((Cluster{.ranks = 9, .ranks_per_host = 8}).hosts(), 2);
  EXPECT_EQ((Cluster{.ranks = 2, .ranks_per_host = 8}).hosts(), 1);
  EXPECT_EQ((Cluster{.ranks = 2, .ranks_per_host = 8}).most_on_a_host(), 2);
}

TEST(Ring, SendsAChunkInEachStep) {
  const Link link{.latency_ms = 1, .ms_per_byte = 0.001};
  EXPECT_DOUBLE_EQ(ring_ms(link, 4, 6, 4000, false), 6 * (1 + 1));
  EXPECT_EQ(ring_ms(link, 1, 0, 4000, false), 0);
}

// Chunks of two pieces of 1 ms: a chunk takes 2 ms, and the next may begin when its first piece is there.
TEST(Ring, HidesTheLatencyOfPieces) {
  const double bytes = 4 * 2 * kPiece;
  EXPECT_DOUBLE_EQ(ring_ms({.latency_ms = 0.5, .ms_per_byte = 1 / kPiece}, 4, 6, bytes, true), 5 * 2 + 2 + 0.5);
  EXPECT_DOUBLE_EQ(ring_ms({.latency_ms = 3, .ms_per_byte = 1 / kPiece}, 4, 6, bytes, true), 5 * (1 + 3) + 2 + 3);
}

// Data of two pieces, one for each tree.
TEST(Tree, GoesUpAndDownAndSendsTheData) {
  const Link link{.latency_ms = 0.5, .ms_per_byte = 1 / kPiece};
  EXPECT_DOUBLE_EQ(tree_ms(link, 2, 2 * kPiece), 2 * 0.5 + 2);
  EXPECT_DOUBLE_EQ(tree_ms(link, 4, 2 * kPiece), 2 * 2 * 0.5 + 3 + 2 * 2);
  EXPECT_DOUBLE_EQ(tree_ms(link, 5, 2 * kPiece), 2 * 3 * 0.5 + 3 * 2 + 2.5 * 2);
  EXPECT_EQ(tree_ms(link, 1, 2 * kPiece), 0);
}

TEST(AllReduce, SumsInsideEachHostToo) {
  Cluster cluster{.ranks = 8,
                  .ranks_per_host = 4,
                  .network = {.latency_ms = 1, .ms_per_byte = 0.001},
                  .inside = {.latency_ms = 0.1, .ms_per_byte = 0.0001}};
  const CollectiveTimes nccl = all_reduce_times(cluster, 4000);
  EXPECT_DOUBLE_EQ(nccl.before, 3 * (0.1 + 0.1));
  EXPECT_DOUBLE_EQ(nccl.between, 2 * (1 + 2));
  EXPECT_DOUBLE_EQ(nccl.total(), 0.6 + 6 + 0.6);
  EXPECT_FALSE(nccl.tree);
  cluster.allreduce = Cluster::Allreduce::shm;
  EXPECT_DOUBLE_EQ(all_reduce_times(cluster, 4000).total(), 6);
  cluster.ranks = 4;
  EXPECT_DOUBLE_EQ(all_reduce_times(cluster, 4000).total(), 1.2);
  EXPECT_DOUBLE_EQ(reduce_scatter_times(cluster, 4000).total() + gather_times(cluster, 4000).total(), 1.2);
}

// 2 * 127 latencies of the ring, 2 * 7 of the tree.
TEST(AllReduce, TakesTheTreeWhereLatencyDecides) {
  Cluster cluster{.ranks = 128, .network = {.latency_ms = 0.01, .ms_per_byte = 1e-8}};
  EXPECT_TRUE(all_reduce_times(cluster, 1 << 20).tree);
  EXPECT_FALSE(all_reduce_times(cluster, 1e12).tree);
  cluster.allreduce = Cluster::Allreduce::shm;
  EXPECT_FALSE(all_reduce_times(cluster, 1 << 20).tree);
}

}  // namespace
}  // namespace ddp
