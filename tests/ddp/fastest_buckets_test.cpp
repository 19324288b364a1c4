#include "ddp/fastest_buckets.h"

#include "core/error.h"
#include "ddp/fit_link.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <random>

namespace ddp {
namespace {

constexpr int64_t kMib = (1 << 20) / 4;  // elements

BucketPlan cut(const std::vector<int64_t>& counts, const std::vector<ParameterId>& begins, int64_t trailer = 40) {
  return plan_buckets_at(counts, 2, trailer, begins);
}

// What fastest_buckets() minimises.
double cost_of(const BucketPlan& plan, const StepCosts& costs, bool rides) {
  return exposed_ms(plan, costs, rides) + static_cast<double>(plan.buckets.size()) * costs.bucket_ms;
}

std::vector<ParameterId> fastest(const std::vector<int64_t>& counts, const StepCosts& costs, bool rides = true) {
  return fastest_buckets(cut(counts, {0}), costs, rides);
}

// Each bit of `bits` says whether a bucket begins at the parameter after it.
std::vector<ParameterId> begins_of(unsigned bits, int parameters) {
  std::vector<ParameterId> begins{0};
  for (int id = 1; id < parameters; ++id)
    if (bits >> (id - 1) & 1) begins.push_back(id);
  return begins;
}

TEST(FastestBuckets, EqualTheBestOfAllCuts) {
  std::mt19937 random(1);
  const auto from_to = [&](double from, double to) { return std::uniform_real_distribution<>(from, to)(random); };
  const auto one_in = [&](int n) { return std::uniform_int_distribution<>(1, n)(random) == 1; };
  size_t different = 0;
  for (int trial = 0; trial < 400; ++trial) {
    const int parameters = std::uniform_int_distribution<>(1, trial % 20 == 0 ? 12 : 9)(random);
    std::vector<int64_t> counts(parameters);
    StepCosts costs;
    double ready = 0;
    const bool together = one_in(10);
    for (int64_t& count : counts) {
      count = one_in(4) ? static_cast<int64_t>(from_to(1, 20) * kMib) : static_cast<int64_t>(from_to(1, 40'000));
      if (!together && !one_in(5)) ready += from_to(0, 10);
      costs.ready_ms.push_back(ready);
    }
    costs.compute_ms = ready + (one_in(2) ? from_to(0, 3) : 0);
    costs.link = {.latency_ms = one_in(4) ? 0 : from_to(0, 2), .ms_per_mib = one_in(6) ? 0 : from_to(0, 3)};
    costs.bucket_ms = one_in(3) ? 0 : from_to(0, 0.5);
    const bool rides = trial % 2;

    double least = std::numeric_limits<double>::infinity();
    size_t fewest = 0;
    for (unsigned bits = 0; bits < 1u << (parameters - 1); ++bits) {
      const BucketPlan plan = cut(counts, begins_of(bits, parameters));
      const double cost = cost_of(plan, costs, rides);
      if (cost > least + 1e-9 || (cost > least - 1e-9 && plan.buckets.size() >= fewest)) continue;
      least = std::min(least, cost);
      fewest = plan.buckets.size();
    }
    const std::vector<ParameterId> begins = fastest(counts, costs, rides);
    ASSERT_TRUE(possible_begins(begins, parameters));
    ASSERT_NEAR(cost_of(cut(counts, begins), costs, rides), least, 1e-8) << trial;
    ASSERT_EQ(begins, fastest(counts, costs, rides)) << "equal on all ranks";
    if (costs.bucket_ms > 0) {
      ASSERT_EQ(begins.size(), fewest) << trial;
    }
    different += begins.size() > 1 && std::ssize(begins) < parameters;
  }
  EXPECT_GT(different, 50u) << "neither one bucket nor one for each parameter";
}

// In ms: latency 1, 1 a MiB.
TEST(FastestBuckets, FollowTheCosts) {
  const LinkCost link{.latency_ms = 1, .ms_per_mib = 1};
  const std::vector<int64_t> equal(4, kMib);
  EXPECT_EQ(fastest({7}, {{3}, 3, link}), (std::vector<ParameterId>{0}));
  EXPECT_EQ(fastest(equal, {{5, 5, 5, 5}, 5, link}), (std::vector<ParameterId>{0})) << "all ready at once";
  EXPECT_EQ(fastest(equal, {{10, 20, 30, 40}, 40, link}).back(), 3) << "nothing but the last tensor is exposed";
  EXPECT_EQ(fastest(equal, {{10, 20, 30, 40}, 40, {}}), (std::vector<ParameterId>{0})) << "a link without costs";
  const std::vector<int64_t> large_first{20 * kMib, 100, 100, 100}, large_last{100, 100, 100, 20 * kMib};
  EXPECT_EQ(fastest(large_first, {{10, 20, 30, 40}, 40, link})[1], 1) << "sent while the others are computed";
  EXPECT_EQ(fastest(large_last, {{10, 20, 30, 40}, 40, link}).back(), 3) << "no other tensor waits for it";
  // Two buckets hide a MiB each beside 3 ms of compute; their own costs decide.
  StepCosts costs{{0, 3}, 3, link, 0.1};
  EXPECT_EQ(fastest({kMib, kMib}, costs).size(), 2u);
  costs.bucket_ms = 2;
  EXPECT_EQ(fastest({kMib, kMib}, costs).size(), 1u);
}

// At most a hundredth slower by the measured costs, and nearer to the best on a link of half the speed and beside a
// pass that takes half as long again.
TEST(RobustBuckets, LeaveRoomForASlowerLinkAndASlowerPass) {
  std::mt19937 random(2);
  const auto from_to = [&](double from, double to) { return std::uniform_real_distribution<>(from, to)(random); };
  int built_stay = 0, better = 0, near_best = 0;
  for (int trial = 0; trial < 200; ++trial) {
    std::vector<int64_t> counts(30);
    StepCosts costs{
        .ready_ms = {}, .link = {.latency_ms = from_to(0, 0.3), .ms_per_mib = from_to(0.1, 5)}, .bucket_ms = 0.02};
    double ready = 30;
    for (int64_t& count : counts) {
      count = static_cast<int64_t>(from_to(0.01, 2) * kMib);
      costs.ready_ms.push_back(ready += from_to(0, 10));
    }
    costs.compute_ms = ready;
    const bool rides = trial % 2;
    StepCosts slow_link = costs, slow_pass = costs;
    slow_link.link = {2 * costs.link.latency_ms, 2 * costs.link.ms_per_mib};
    for (double& ms : slow_pass.ready_ms) ms *= 1.5;
    slow_pass.compute_ms *= 1.5;
    const BucketPlan built = plan_buckets(counts, 2, 40, BucketCaps()),
                     robust = cut(counts, robust_buckets(built, costs, rides)),
                     fast = cut(counts, fastest(counts, costs, rides));
    ASSERT_LE(ready + cost_of(robust, costs, rides), 1.01 * (ready + cost_of(fast, costs, rides)) + 1e-9);
    built_stay += robust.buckets == built.buckets;
    if (robust.buckets == built.buckets) continue;
    const auto time = [&](const BucketPlan& plan, const StepCosts& c) {
      return c.compute_ms + cost_of(plan, c, rides);
    };
    const auto worst = [&](const BucketPlan& plan) {
      double ratio = 0;
      for (const StepCosts& c : {slow_link, slow_pass})
        ratio = std::max(ratio, time(plan, c) / time(cut(counts, fastest(counts, c, rides)), c));
      return ratio;
    };
    ASSERT_LE(worst(robust), worst(fast) + 1e-9);
    better += worst(robust) < worst(fast) - 0.01;
    near_best += worst(robust) < 1.02;
  }
  EXPECT_GT(built_stay, 20);
  EXPECT_GT(better, 10);
  EXPECT_GT(near_best, 50);
}

// A tensor's gradient is ready as a whole.
TEST(FastestBuckets, ASplitTensorNeverEndsEarlier) {
  for (const LinkCost link : {LinkCost{1, 1}, LinkCost{0, 1}, LinkCost{0.5, 0}})
    for (const int parts : {2, 3, 8}) {
      const StepCosts whole{{2, 10, 11}, 11, link};
      std::vector<int64_t> counts{kMib};
      std::vector<double> ready{2};
      for (int part = 0; part < parts; ++part) {
        counts.push_back(24 * kMib / parts);
        ready.push_back(10);
      }
      counts.push_back(100);
      ready.push_back(11);
      const std::vector<int64_t> uncut{kMib, 24 * kMib, 100};
      const double best = exposed_ms(cut(uncut, fastest(uncut, whole)), whole);
      for (unsigned bits = 0; bits < 1u << (counts.size() - 1); ++bits) {
        const auto begins = begins_of(bits, static_cast<int>(counts.size()));
        EXPECT_GE(exposed_ms(cut(counts, begins), {ready, 11, link}), best - 1e-9);
      }
    }
}

TEST(FastestBuckets, CollectivesRunOneAfterAnother) {
  const StepCosts costs{{1, 2, 10}, 12, {.latency_ms = 1, .ms_per_mib = 2}};
  const BucketPlan plan = cut({4 * kMib, kMib, kMib}, {0, 1, 2}, 2 * kMib);
  const auto expect = [](const CollectiveTime& time, double ready, double begin, double end) {
    EXPECT_EQ(time.ready, ready);
    EXPECT_EQ(time.begin, begin);
    EXPECT_EQ(time.end, end);
  };
  const auto rides = predict_collectives(plan, costs);
  ASSERT_EQ(rides.size(), 3u);
  expect(rides[0], 1, 1, 10);
  expect(rides[1], 2, 10, 13);
  expect(rides[2], 12, 13, 20);
  EXPECT_EQ(exposed_ms(plan, costs), 8);
  const auto alone = predict_collectives(plan, costs, false);
  ASSERT_EQ(alone.size(), 4u);
  expect(alone[2], 10, 13, 16);
  expect(alone[3], 12, 16, 21);
  EXPECT_EQ(exposed_ms(plan, costs, false), 9);
}

TEST(FastestBuckets, HaveALimit) {
  const int parameters = 2 * kMostFastestBuckets;
  StepCosts costs{.ready_ms = {}, .link = {.latency_ms = 0, .ms_per_mib = 1}};
  for (int id = 0; id < parameters; ++id) costs.ready_ms.push_back(id);
  costs.compute_ms = parameters;
  EXPECT_LE(std::ssize(fastest(std::vector<int64_t>(parameters, kMib), costs)), kMostFastestBuckets);
}

TEST(FastestBuckets, RefuseImpossibleCosts) {
  const std::vector<int64_t> counts{8, 8};
  const StepCosts good{{1, 2}, 2, {1, 1}, 0};
  EXPECT_NO_THROW(fastest(counts, good));
  std::array<StepCosts, 8> bad{good, good, good, good, good, good, good, good};
  bad[0].ready_ms = {1};
  bad[1].ready_ms = {2, 1};
  bad[2].ready_ms = {1, NAN};
  bad[3].ready_ms = {-1, 1};
  bad[4].compute_ms = NAN;
  bad[5].link.latency_ms = -1;
  bad[6].link.ms_per_mib = INFINITY;
  bad[7].bucket_ms = NAN;
  for (const StepCosts& costs : bad) {
    EXPECT_THROW(fastest(counts, costs), Error);
    EXPECT_THROW(exposed_ms(cut(counts, {0}), costs), Error);
  }
}

TEST(BucketPlan, BeginsWhereItIsTold) {
  const std::vector<int64_t> counts{5, 6, 7, 8};
  const BucketPlan plan = plan_buckets_at(counts, 4, 3, std::vector<ParameterId>{0, 1, 3});
  EXPECT_EQ(plan.buckets, (std::vector<Bucket>{{0, 5, 0, 1}, {5, 13, 1, 3}, {18, 10, 3, 4}}));
  EXPECT_EQ(plan.padded, 28);
  EXPECT_EQ(plan.total, 31);
  for (const std::vector<ParameterId>& begins :
       std::vector<std::vector<ParameterId>>{{}, {1}, {0, 0}, {0, 2, 1}, {0, 4}, {-1, 2}}) {
    EXPECT_FALSE(possible_begins(begins, 4));
    EXPECT_THROW(plan_buckets_at(counts, 4, 3, begins), Error);
  }
}

TEST(FitLink, FindsTheCostsOfALink) {
  const LinkCost link{.latency_ms = 0.2, .ms_per_mib = 8};
  std::vector<TimedCollective> measured;
  for (const int64_t elements : {kMib / 8, kMib / 2, 2 * kMib, 8 * kMib})
    measured.push_back({elements, link.ms(elements)});
  EXPECT_NEAR(fit_link(measured).latency_ms, 0.2, 1e-9);
  EXPECT_NEAR(fit_link(measured).ms_per_mib, 8, 1e-9);
  measured.back().ms *= 1.1;
  EXPECT_NEAR(fit_link(measured).ms_per_mib, 8.5, 0.5);
}

TEST(FitLink, FindsNoNegativeCosts) {
  const LinkCost falling = fit_link(std::vector<TimedCollective>{{kMib, 3}, {4 * kMib, 2}});
  EXPECT_EQ(falling.ms_per_mib, 0);
  EXPECT_NEAR(falling.latency_ms, 2.5, 0.5);
  const LinkCost steep = fit_link(std::vector<TimedCollective>{{kMib, 1}, {2 * kMib, 3}});
  EXPECT_EQ(steep.latency_ms, 0);
  EXPECT_NEAR(steep.ms_per_mib, 1.25, 0.25);
  const LinkCost single = fit_link(std::vector<TimedCollective>{{kMib, 3}, {kMib, 3}});
  EXPECT_EQ(single.ms_per_mib, 0);
  EXPECT_NEAR(single.latency_ms, 3, 1e-9);
  EXPECT_THROW(fit_link({}), Error);
  EXPECT_THROW(fit_link(std::vector<TimedCollective>{{kMib, NAN}}), Error);
}

}  // namespace
}  // namespace ddp
