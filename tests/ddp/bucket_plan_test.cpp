#include "ddp/bucket_plan.h"

#include "core/error.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

namespace ddp {
namespace {

constexpr int64_t kElementsPerMb = (1 << 20) / 4;

std::vector<std::vector<int64_t>> sizes_by_bucket(const BucketPlan& plan) {
  std::vector<std::vector<int64_t>> sizes;
  for (const Bucket& b : plan.buckets)
    sizes.emplace_back(plan.parameter_counts.begin() + b.first, plan.parameter_counts.begin() + b.end);
  return sizes;
}

TEST(BucketPlan, LeNetHasThreeBuckets) {
  const std::vector<int64_t> sizes{1280, 10, 102400, 128, 25000, 50, 180, 20};
  const BucketPlan plan = plan_buckets(sizes, 4, 15, {});
  EXPECT_EQ(sizes_by_bucket(plan),
            (std::vector<std::vector<int64_t>>{{1280, 10}, {102400, 128, 25000, 50}, {180, 20}}));
  EXPECT_EQ(plan.gradients, 129068);
  EXPECT_EQ(plan.padded, 129068);
  EXPECT_EQ(plan.total, 129083);
  EXPECT_EQ(plan.trailer(), 15);
  EXPECT_EQ(plan.buckets.back().offset + plan.buckets.back().count, plan.padded);
}

TEST(BucketPlan, PadsToAMultipleOfTheWorldSize) {
  const std::vector<int64_t> sizes{5, 5, 5};
  EXPECT_EQ(plan_buckets(sizes, 4, 3, {}).padded, 16);
  EXPECT_EQ(plan_buckets(sizes, 4, 3, {}).total, 19);
  EXPECT_EQ(plan_buckets(sizes, 5, 3, {}).padded, 15);
}

TEST(BucketPlan, HandlesSmallModels) {
  EXPECT_EQ(plan_buckets(std::vector<int64_t>{}, 2, 9, {}).buckets, (std::vector<Bucket>{{0, 0, 0, 0}}));
  EXPECT_EQ(plan_buckets(std::vector<int64_t>{7}, 2, 9, {}).buckets, (std::vector<Bucket>{{0, 8, 0, 1}}));
  EXPECT_EQ(plan_buckets(std::vector<int64_t>{7, 1}, 2, 9, {}).buckets,
            (std::vector<Bucket>{{0, 7, 0, 1}, {7, 1, 1, 2}}));
  EXPECT_EQ(plan_buckets(std::vector<int64_t>{90, 1, 1}, 1, 0, {}).buckets.size(), 3u);
  EXPECT_EQ(plan_buckets(std::vector<int64_t>{1, 1, 90}, 1, 0, {}).buckets.size(), 3u);
}

TEST(BucketPlan, ParameterAboveTheCapGetsItsOwnBucket) {
  const int64_t mb = kElementsPerMb;
  const std::vector<int64_t> sizes{mb / 2, mb, mb, 9 * mb, mb, mb, mb / 4};
  EXPECT_EQ(sizes_by_bucket(plan_buckets(sizes, 1, 0, {})),
            (std::vector<std::vector<int64_t>>{{mb / 2}, {mb, mb}, {9 * mb}, {mb, mb}, {mb / 4}}));
}

TEST(BucketPlan, SmallRunsJoinTheParameterThatCutsThemOff) {
  const int64_t mb = kElementsPerMb, least = mb / 16;
  const std::vector<int64_t> sizes{mb / 2, 9 * mb, 500, 1000, 9 * mb, least - 1, 9 * mb, least, 9 * mb, 700, mb / 4};
  EXPECT_EQ(sizes_by_bucket(plan_buckets(sizes, 1, 0, {})),
            (std::vector<std::vector<int64_t>>{
                {mb / 2}, {9 * mb}, {500, 1000, 9 * mb}, {least - 1, 9 * mb}, {least}, {9 * mb}, {700}, {mb / 4}}));
  const std::vector<int64_t> tiny{4, 9, 1, 9, 1};
  EXPECT_EQ(plan_buckets(tiny, 1, 0, {.cap_mb = 1e-6, .first_cap_mb = 1e-6}).buckets.size(), 5u) << "below a small cap";
}

TEST(BucketPlan, RefusesCapsThatAreNotPositive) {
  EXPECT_THROW(plan_buckets(std::vector<int64_t>{1}, 1, 0, {.cap_mb = 0}), Error);
}

// Checks the bucket rules on plans of random models.
TEST(BucketPlan, KeepsItsRulesForRandomModels) {
  std::mt19937 random(1);
  const auto pick = [&](int64_t from, int64_t to) { return std::uniform_int_distribution<int64_t>(from, to)(random); };
  for (int trial = 0; trial < 2000; ++trial) {
    std::vector<int64_t> sizes(pick(3, 60));
    for (int64_t& size : sizes) size = pick(0, 3) == 0 ? pick(0, 3 * kElementsPerMb) : pick(0, 600);
    const BucketCaps caps{.cap_mb = trial % 2 ? 8.0 : 1.5};
    const auto world = static_cast<int>(pick(1, 9));
    const BucketPlan plan = plan_buckets(sizes, world, 12, caps);
    const auto cap = static_cast<int64_t>(caps.cap_mb * static_cast<double>(kElementsPerMb));

    ASSERT_GE(plan.buckets.size(), 3u);
    ASSERT_EQ(plan.padded % world, 0);
    ASSERT_LT(plan.padded - plan.gradients, world);
    int64_t offset = 0;
    ParameterId parameter = 0;
    for (size_t b = 0; b < plan.buckets.size(); ++b) {
      const Bucket& bucket = plan.buckets[b];
      ASSERT_EQ(bucket.offset, offset);
      ASSERT_EQ(bucket.first, parameter);
      ASSERT_GT(bucket.end, bucket.first);
      int64_t count = 0;
      for (ParameterId id = bucket.first; id < bucket.end; ++id) {
        ASSERT_EQ(plan.bucket_of(id), static_cast<int>(b));
        ASSERT_EQ(plan.parameter_offsets[id], offset + count);
        count += sizes[id];
      }
      const bool last = b + 1 == plan.buckets.size();
      int64_t head = 0;  // that has joined the rest
      ParameterId rest = bucket.first;
      while (b > 0 && !last && count - head > cap && rest + 1 < bucket.end && head + sizes[rest] < kElementsPerMb / 16)
        head += sizes[rest++];
      const bool alone = bucket.end - rest == 1;
      const int64_t limit = b == 0 ? std::min({cap, kElementsPerMb, plan.gradients / 4})
                            : last ? std::min(cap, plan.gradients / 64)
                                   : cap;
      if (!alone) {
        ASSERT_LE(count - head, limit) << "bucket " << b << " of " << plan.buckets.size();
      }
      if (b > 0 && b + 2 < plan.buckets.size()) {
        ASSERT_GE(count, kElementsPerMb / 16);
      }
      offset += bucket.count;
      parameter = bucket.end;
    }
    ASSERT_EQ(offset, plan.padded);
    ASSERT_EQ(plan.trailer(), 12);
    ASSERT_EQ(parameter, static_cast<ParameterId>(sizes.size()));
  }
}

TEST(BucketPlan, PartitionsCoverTheBucketsAndTheState) {
  for (const int world : {1, 2, 3, 4, 7}) {
    const int64_t unit = partition_alignment(world);
    const std::vector<int64_t> sizes{5 * unit, unit, 60 * unit, 0, 3 * unit, 2 * unit};
    const BucketPlan plan = plan_buckets(sizes, world, 9, {.cap_mb = 0.001});
    ASSERT_GE(plan.buckets.size(), 3u);
    std::vector<int> uses(plan.padded);
    for (int rank = 0; rank < world; ++rank) {
      const std::vector<Partition> parts = partitions_of(plan, rank, world);
      ASSERT_EQ(parts.size(), plan.buckets.size());
      int64_t state = 0;
      for (size_t b = 0; b < parts.size(); ++b) {
        ASSERT_EQ(parts[b].begin, plan.buckets[b].offset + rank * parts[b].count);
        ASSERT_EQ(parts[b].begin % 16, 0);
        ASSERT_EQ(parts[b].state, state);
        for (int64_t i = 0; i < parts[b].count; ++i) ++uses[parts[b].begin + i];
        state += parts[b].count;
      }
      ASSERT_EQ(state * world, plan.padded);
    }
    ASSERT_EQ(uses, std::vector<int>(plan.padded, 1));
  }
}

TEST(BucketPlan, PartitionsNeedAlignedParameters) {
  EXPECT_THROW(partitions_of(plan_buckets(std::vector<int64_t>{32, 16, 32}, 2, 9, {}), 0, 2), Error);
  EXPECT_THROW(partitions_of(plan_buckets(std::vector<int64_t>{32, 32, 33}, 2, 9, {}), 0, 2), Error);
  EXPECT_NO_THROW(partitions_of(plan_buckets(std::vector<int64_t>{32, 32, 64}, 2, 9, {}), 0, 2));
}

TEST(BucketPlan, HashDistinguishesPlans) {
  const std::vector<int64_t> sizes{1280, 10, 102400, 128, 25000, 50, 180, 20},
      swapped{10, 1280, 102400, 128, 25000, 50, 180, 20};
  std::set<uint64_t> hashes{plan_buckets(sizes, 2, 9, {}).hash(), plan_buckets(swapped, 2, 9, {}).hash(),
                            plan_buckets(sizes, 2, 10, {}).hash(), plan_buckets(sizes, 2, 9, {.cap_mb = 0.25}).hash(),
                            plan_buckets(sizes, 3, 9, {}).hash()};
  EXPECT_EQ(hashes.size(), 5u);
  EXPECT_EQ(plan_buckets(sizes, 2, 9, {}).hash(), plan_buckets(sizes, 2, 9, {}).hash());
  EXPECT_TRUE(hashes.contains(0x47c39eb3c6708b61));  // equal on every machine
}

}  // namespace
}  // namespace ddp
