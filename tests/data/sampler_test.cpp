#include "data/sampler.h"

#include "core/error.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <vector>

namespace ddp {
namespace {

using RankWeights = std::vector<double>;

std::vector<int64_t> part_sizes(int64_t count, const RankWeights& weights) {
  std::vector<int64_t> sizes;
  for (int rank = 0; rank < static_cast<int>(weights.size()); ++rank)
    sizes.push_back(shard_range(count, rank, weights).size());
  return sizes;
}

TEST(ShardRange, PartsAreContiguousDisjointAndComplete) {
  for (const RankWeights& weights :
       {RankWeights{1}, RankWeights{1, 1}, RankWeights{2, 1}, RankWeights{1, 1, 1}, RankWeights{0.1, 0.1, 0.1, 0.1},
        RankWeights{1e-9, 1, 1e9}, RankWeights{0.3, 0.3, 0.4}, RankWeights(7, 1 / 3.0), RankWeights(64, 1)})
    for (int64_t count : {0, 1, 2, 3, 5, 60, 63, 64, 65, 255, 256, 257, 10'000, 60'000}) {
      int64_t end = 0;
      for (int rank = 0; rank < static_cast<int>(weights.size()); ++rank) {
        const Range part = shard_range(count, rank, weights);
        ASSERT_EQ(part.begin, end);
        ASSERT_GE(part.size(), 0);
        end = part.end;
      }
      ASSERT_EQ(end, count);
    }
}

TEST(ShardRange, EqualWeightsDifferByAtMostOne) {
  for (double weight : {1.0, 0.1, 1 / 3.0, 7e20})
    for (int world = 1; world <= 33; ++world)
      for (int64_t count = 0; count <= 300; ++count) {
        const auto sizes = part_sizes(count, RankWeights(world, weight));
        const auto [least, most] = std::minmax_element(sizes.begin(), sizes.end());
        ASSERT_LE(*most - *least, 1) << count << " over " << world << " of weight " << weight;
      }
}

TEST(ShardRange, FollowsTheWeights) {
  EXPECT_EQ(part_sizes(256, {2, 1}), (std::vector<int64_t>{171, 85}));
  EXPECT_EQ(part_sizes(300, {2, 1}), (std::vector<int64_t>{200, 100}));
  EXPECT_EQ(part_sizes(10, {3, 1, 1}), (std::vector<int64_t>{6, 2, 2}));
  EXPECT_EQ(part_sizes(4, {1, 1000}), (std::vector<int64_t>{0, 4}));
  EXPECT_EQ(part_sizes(1, {1, 1, 1, 1}), (std::vector<int64_t>{0, 1, 0, 0}));
}

TEST(ShardRange, RefusesBadWeightsAndRanks) {
  EXPECT_THROW(shard_range(4, 0, RankWeights{0, 1}), Error);
  EXPECT_THROW(shard_range(4, 0, RankWeights{-1, 2}), Error);
  EXPECT_THROW(shard_range(4, 0, RankWeights{std::numeric_limits<double>::infinity(), 2}), Error);
  EXPECT_THROW(shard_range(4, 2, RankWeights{1, 1}), Error);
  EXPECT_THROW(shard_range(4, -1, RankWeights{1, 1}), Error);
}

std::vector<DistributedSampler> samplers(int64_t samples, int64_t batch, const RankWeights& weights,
                                         Order order = Order::shuffled, uint64_t seed = 1) {
  std::vector<DistributedSampler> ranks;
  for (int rank = 0; rank < static_cast<int>(weights.size()); ++rank)
    ranks.emplace_back(samples, batch, order, seed, rank, weights);
  return ranks;
}

// The samples of an epoch, ordered by step and then by rank.
std::vector<int64_t> epoch_of(const std::vector<DistributedSampler>& ranks, int64_t epoch) {
  std::vector<int64_t> seen;
  for (int64_t step = 0; step < ranks[0].steps_per_epoch(); ++step) {
    int64_t batch = 0;
    for (const DistributedSampler& rank : ranks) {
      const Range shard = rank.shard(step);
      for (int64_t position = shard.begin; position < shard.end; ++position)
        seen.push_back(rank.sample(epoch, position));
      batch += shard.size();
    }
    EXPECT_EQ(batch, ranks[0].global_batch_size(step));
  }
  return seen;
}

TEST(DistributedSampler, SeesEverySampleOncePerEpochInTheSameOrderAtEveryWorldSize) {
  for (int64_t samples : {1, 3, 60, 100, 255, 256, 257, 1000})
    for (int64_t batch : {1, 7, 64, 256, 5000})
      for (int64_t epoch : {0, 3}) {
        const std::vector<int64_t> alone = epoch_of(samplers(samples, batch, {1}), epoch);
        for (const RankWeights& weights : {RankWeights{1, 1}, RankWeights{1, 1, 1}, RankWeights(4, 1),
                                           RankWeights(8, 1), RankWeights{2, 1}, RankWeights{0.2, 1, 3}})
          ASSERT_EQ(epoch_of(samplers(samples, batch, weights), epoch), alone)
              << samples << " samples, batch " << batch << ", " << weights.size() << " ranks";
        std::vector<int64_t> sorted = alone, all(samples);
        std::sort(sorted.begin(), sorted.end());
        std::iota(all.begin(), all.end(), 0);
        ASSERT_EQ(sorted, all) << samples << " samples, batch " << batch;
      }
}

TEST(DistributedSampler, OrderDependsOnSeedAndEpochUnlessSequential) {
  const auto base = epoch_of(samplers(1000, 64, {1, 1}), 0);
  EXPECT_NE(epoch_of(samplers(1000, 64, {1, 1}), 1), base);
  EXPECT_NE(epoch_of(samplers(1000, 64, {1, 1}, Order::shuffled, 2), 0), base);
  EXPECT_EQ(epoch_of(samplers(1000, 64, {1, 1}), 0), base);
  std::vector<int64_t> all(1000);
  std::iota(all.begin(), all.end(), 0);
  EXPECT_EQ(epoch_of(samplers(1000, 64, {1, 1}, Order::sequential), 5), all);
  EXPECT_NE(base, all);
}

TEST(DistributedSampler, GlobalBatchDoesNotChangeTheOrder) {
  EXPECT_EQ(epoch_of(samplers(1000, 64, {1, 1}), 2), epoch_of(samplers(1000, 7, {1, 1, 1}), 2));
}

TEST(DistributedSampler, LastBatchIsShort) {
  const auto ranks = samplers(60'000, 256, {1, 1, 1, 1});
  EXPECT_EQ(ranks[0].steps_per_epoch(), 235);
  EXPECT_EQ(ranks[0].global_batch_size(0), 256);
  EXPECT_EQ(ranks[0].global_batch_size(233), 256);
  EXPECT_EQ(ranks[0].global_batch_size(234), 96);
  EXPECT_EQ(ranks[3].shard(234), (Range{60'000 - 24, 60'000}));
  EXPECT_EQ(ranks[3].local_batch_sizes(), (std::vector<int64_t>{24, 64}));
  EXPECT_EQ(samplers(512, 256, {1})[0].steps_per_epoch(), 2);
  EXPECT_EQ(samplers(512, 256, {1})[0].local_batch_sizes(), (std::vector<int64_t>{256}));
}

TEST(DistributedSampler, DatasetSmallerThanABatch) {
  const auto ranks = samplers(60, 256, {1, 1, 1, 1});
  EXPECT_EQ(ranks[0].steps_per_epoch(), 1);
  EXPECT_EQ(ranks[0].global_batch_size(0), 60);
  for (const DistributedSampler& rank : ranks) EXPECT_EQ(rank.shard(0).size(), 15);
  EXPECT_EQ(ranks[0].local_batch_sizes(), (std::vector<int64_t>{15}));
}

TEST(DistributedSampler, FewerSamplesThanRanksLeavesShardsEmpty) {
  const auto ranks = samplers(3, 256, RankWeights(8, 1));
  int empty = 0;
  for (const DistributedSampler& rank : ranks) {
    EXPECT_EQ(rank.steps_per_epoch(), 1);
    empty += rank.shard(0).size() == 0;
    EXPECT_EQ(rank.local_batch_sizes().empty(), rank.shard(0).size() == 0);
  }
  EXPECT_EQ(empty, 5);
}

TEST(DistributedSampler, LocalBatchSizesAreThoseOfTheShards) {
  for (int64_t samples : {1, 5, 100, 257, 1000})
    for (int64_t batch : {1, 7, 256})
      for (const RankWeights& weights : {RankWeights{1}, RankWeights{1, 1, 1}, RankWeights{2, 1}, RankWeights(16, 1)})
        for (const DistributedSampler& rank : samplers(samples, batch, weights)) {
          std::vector<int64_t> sizes;
          for (int64_t step = 0; step < rank.steps_per_epoch(); ++step)
            if (rank.shard(step).size() > 0) sizes.push_back(rank.shard(step).size());
          std::sort(sizes.begin(), sizes.end());
          sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
          ASSERT_EQ(rank.local_batch_sizes(), sizes);
        }
}

TEST(DistributedSampler, EmptyDatasetHasNoSteps) {
  const DistributedSampler sampler(0, 256, Order::shuffled, 1, 0, {1});
  EXPECT_EQ(sampler.steps_per_epoch(), 0);
  EXPECT_TRUE(sampler.local_batch_sizes().empty());
}

TEST(DistributedSampler, RefusesStepsAndPositionsOutOfRange) {
  const DistributedSampler sampler(10, 4, Order::sequential, 1, 0, {1});
  EXPECT_THROW(sampler.shard(3), Error);
  EXPECT_THROW(sampler.shard(-1), Error);
  EXPECT_THROW(sampler.sample(0, 10), Error);
  EXPECT_THROW(DistributedSampler(10, 0, Order::shuffled, 1, 0, {1}), Error);
  EXPECT_THROW(DistributedSampler(10, 4, Order::shuffled, 1, 1, {1}), Error);
}

// Micro-batches divide each global batch in the same way at every world size, and ranks divide each micro-batch.
TEST(MicroBatches, AreDisjointAndComplete) {
  for (const int world : {1, 2, 3, 5}) {
    std::vector<int> seen(103, 0);
    for (int rank = 0; rank < world; ++rank) {
      const DistributedSampler sampler(103, 20, Order::sequential, 0, rank, std::vector<double>(world, 1.0), 3);
      for (int64_t step = 0; step < sampler.steps_per_epoch(); ++step)
        for (int micro = 0; micro < 3; ++micro) {
          const Range whole = sampler.micro_batch(step, micro), shard = sampler.shard(step, micro);
          EXPECT_GE(shard.begin, whole.begin);
          EXPECT_LE(shard.end, whole.end);
          for (int64_t i = shard.begin; i < shard.end; ++i) ++seen[i];
        }
    }
    EXPECT_EQ(seen, std::vector<int>(103, 1)) << world;
  }
}

}  // namespace
}  // namespace ddp
