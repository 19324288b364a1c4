// Shares by measured speed: the fastest ones, when they change, and when they do not.
#include "ddp/balance.h"

#include "data/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <string>
#include <utility>

namespace ddp::testing {
namespace {

using Speeds = std::vector<double>;

Shares cut(int64_t samples, const std::vector<double>& weights) {
  Shares shares;
  for (int rank = 0; rank < static_cast<int>(weights.size()); ++rank)
    shares.push_back(shard_range(samples, rank, weights).size());
  return shares;
}
Shares equal_shares(int64_t samples, int world) { return cut(samples, std::vector<double>(world, 1.0)); }

double seconds(const Shares& shares, const Speeds& speeds) {
  double slowest = 0;
  for (size_t r = 0; r < shares.size(); ++r) slowest = std::max(slowest, static_cast<double>(shares[r]) / speeds[r]);
  return slowest;
}

// Calls `see` for all shares of at least one sample.
template <class See>
void all_shares(int64_t samples, size_t ranks, Shares& shares, const See& see) {
  if (shares.size() + 1 == ranks) {
    shares.push_back(samples);
    see(shares);
    return shares.pop_back();
  }
  for (int64_t n = 1, others = static_cast<int64_t>(ranks - shares.size()) - 1; n <= samples - others; ++n) {
    shares.push_back(n);
    all_shares(samples - n, ranks, shares, see);
    shares.pop_back();
  }
}

TEST(Balance, NoSharesAreFaster) {
  std::mt19937 random(1);
  for (int trial = 0; trial < 40; ++trial) {
    const int ranks = 2 + trial % 3;
    const int64_t samples = ranks + trial % 11;
    Speeds speeds(ranks);
    for (double& speed : speeds) speed = std::uniform_real_distribution(0.2, 2.0)(random);
    const Shares found = fastest_shares(samples, speeds);
    EXPECT_EQ(std::reduce(found.begin(), found.end()), samples);
    double least = std::numeric_limits<double>::infinity();
    Shares shares;
    all_shares(samples, ranks, shares, [&](const Shares& candidate) {
      if (std::ranges::max(candidate) <= kLargestShare * samples / ranks)
        least = std::min(least, seconds(candidate, speeds));
    });
    EXPECT_EQ(seconds(found, speeds), least) << trial;
  }
}

TEST(Balance, AShareIsOneSampleAtLeastAndHasALimit) {
  EXPECT_EQ(fastest_shares(100, Speeds{1, 1000}), (Shares{1, 99}));
  EXPECT_EQ(fastest_shares(100, Speeds{1, 1, 1, 1000}), (Shares{17, 17, 16, 50}));
  for (int world = 2; world < 9; ++world)
    for (int64_t full = world; full < 60; ++full) {
      Speeds speeds(world, 1e-3);
      speeds[full % world] = 1;
      speeds[(full + 1) % world] = 0.9;
      const Shares shares = fastest_shares(full, speeds);
      const std::vector<double> weights(shares.begin(), shares.end());
      EXPECT_EQ(cut(full, weights), shares);
      for (const int64_t samples : {full, full - 1, full / 2 + 1, 3 * full + 1, int64_t{256}})
        EXPECT_LE(std::ranges::max(cut(samples, weights)), largest_share(samples, world)) << samples << " of " << world;
    }
}

TEST(Balance, ARankAtHalfSpeedGetsHalfAsMuchAtOnce) {
  const Shares equal = equal_shares(256, 2);
  EXPECT_EQ(balanced(equal, equal, Speeds{200, 100}, {}), (Shares{171, 85}));
  EXPECT_EQ(balanced({171, 85}, equal, Speeds{200, 100}, Speeds{200, 100}), std::nullopt);
  EXPECT_EQ(balanced({171, 85}, equal, Speeds{200, 200}, Speeds{200, 100}), equal);
}

TEST(Balance, ASmallerDifferenceIsFollowedWhenTwoMeasurementsHaveIt) {
  const Shares equal = equal_shares(256, 2);
  const Speeds slower{100, 75}, other{75, 100}, near{100, 85};
  EXPECT_EQ(balanced(equal, equal, slower, {}), std::nullopt);
  EXPECT_EQ(balanced(equal, equal, slower, other), std::nullopt);
  EXPECT_EQ(balanced(equal, equal, slower, slower), (Shares{146, 110}));
  EXPECT_EQ(balanced(equal, equal, near, near), std::nullopt);
  EXPECT_EQ(balanced({146, 110}, equal, near, slower), std::nullopt);
  EXPECT_EQ(balanced({146, 110}, equal, Speeds{100, 95}, Speeds{95, 100}), equal);
  const Shares eight = equal_shares(256, 8);
  EXPECT_EQ(balanced({34, 34, 34, 34, 34, 34, 34, 18}, eight, Speeds(8, 100), Speeds(8, 100)), eight);
}

// Ranks that take 171 ms and 1 ms a sample, after the neighbour that had slowed rank 1 has left.
TEST(Balance, EquallyFastRanksWithAFixedPartHaveEqualShares) {
  const Shares equal = equal_shares(256, 2);
  const Speeds stale{171 / 0.342, 85 / 0.256}, half{171 / 0.342, 85 / 0.512};
  EXPECT_EQ(balanced({171, 85}, equal, stale, half), std::nullopt);
  EXPECT_EQ(balanced({171, 85}, equal, stale, stale), equal);
  EXPECT_EQ(balanced({211, 45}, equal, Speeds{211 / 0.382, 45 / 0.216}, {}), equal);
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(balanced({171, 85}, equal, stale, Speeds{500, nan}), std::nullopt);
  EXPECT_EQ(balanced({6, 2}, {4, 4}, Speeds{100, 50}, Speeds{100, 50}), std::nullopt);
  EXPECT_EQ(balanced({7, 1}, {4, 4}, Speeds{56, 13}, Speeds{56, 13}), std::nullopt);
}

TEST(Balance, WithoutSpeedsSharesStay) {
  const double nan = std::numeric_limits<double>::quiet_NaN(), infinity = std::numeric_limits<double>::infinity();
  const Shares equal = equal_shares(256, 2);
  for (const double bad : {0.0, -1.0, nan, infinity}) {
    EXPECT_EQ(balanced({171, 85}, equal, Speeds{200, bad}, Speeds{200, 200}), std::nullopt);
    EXPECT_EQ(balanced(equal, equal, Speeds{100, 75}, Speeds{100, bad}), std::nullopt);
  }
  EXPECT_EQ(balanced(equal, equal, Speeds{200}, {}), std::nullopt);
  EXPECT_EQ(balanced({256}, {256}, Speeds{200}, {}), std::nullopt);
  const Shares some_empty = equal_shares(3, 5);
  EXPECT_EQ(balanced(some_empty, some_empty, Speeds(5, 1), {}), std::nullopt);
}

// A rank's measured speed is off by up to `noise`, and by another error in each epoch. The fixed part of a step takes
// as long as `fixed` samples.
class Machine {
 public:
  Machine(double noise, unsigned seed, int world, double fixed = 0, int64_t samples = 256)
      : noise_(noise), fixed_(fixed), random_(seed), equal_(equal_shares(samples, world)) {}

  // Whether the shares change after an epoch with these speeds.
  bool epoch(Speeds speeds) {
    for (size_t rank = 0; rank < speeds.size(); ++rank) {
      const auto share = static_cast<double>(now_[rank]);
      speeds[rank] *= share / (share + fixed_) * (1 + std::uniform_real_distribution(-noise_, noise_)(random_));
    }
    const auto next = balanced(now_, equal_, speeds, earlier_);
    earlier_ = speeds;
    if (next) now_ = *next;
    return next.has_value();
  }
  bool is_equal() const { return now_ == equal_; }
  const Shares& shares() const { return now_; }

 private:
  double noise_, fixed_;
  std::mt19937 random_;
  Shares equal_, now_ = equal_;
  Speeds earlier_;
};

TEST(Balance, ASteadyNoisyMachineNeverMovesAndASlowRankIsFollowedAtOnce) {
  constexpr int kEpochs = 20, kSeeds = 200;
  for (const double noise : {0.03, 0.08})
    for (const int world : {2, 3, 5, 8})
      for (unsigned seed = 0; seed < kSeeds; ++seed) {
        SCOPED_TRACE(std::to_string(noise) + ", ranks " + std::to_string(world) + ", seed " + std::to_string(seed));
        Machine machine(noise, seed, world);
        const Speeds steady(world, 100);
        Speeds slowed = steady;
        slowed[seed % world] = 50;
        for (int i = 0; i < kEpochs; ++i) ASSERT_FALSE(machine.epoch(steady)) << i;
        ASSERT_TRUE(machine.epoch(slowed));
        ASSERT_LT(machine.shares()[seed % world], 0.75 * 256 / world);
        int corrections = 0;  // of what noise made of the first measurement
        for (int i = 1; i < kEpochs; ++i) corrections += machine.epoch(slowed) ? 1 : 0;
        ASSERT_LE(corrections, noise < 0.05 ? 0 : 1);
        int until_equal = 0;
        while (!machine.is_equal() && until_equal < kEpochs) {
          machine.epoch(steady);
          ++until_equal;
        }
        ASSERT_LE(until_equal, world == 2 ? 2 : kEpochs / 2);
        for (int i = 0; i < kEpochs; ++i) ASSERT_FALSE(machine.epoch(steady)) << i;
      }
}

TEST(Balance, AFixedPartNeitherHuntsNorKeepsSharesThatAreStale) {
  constexpr int kEpochs = 20, kSeeds = 200;
  for (const double fixed : {40, 80, 128, 171, 230})
    for (const double noise : {0.0, 0.03, 0.08})
      for (unsigned seed = 0; seed < kSeeds; ++seed) {
        SCOPED_TRACE(std::to_string(fixed) + ", " + std::to_string(noise) + ", seed " + std::to_string(seed));
        Machine machine(noise, seed, 2, fixed);
        const Speeds steady(2, 100), slowed{100, 50};
        for (int i = 0; i < kEpochs; ++i) ASSERT_FALSE(machine.epoch(steady)) << i;
        ASSERT_TRUE(machine.epoch(slowed));
        for (int i = 1; i < (seed % 2 == 0 ? kEpochs : 3); ++i) {
          machine.epoch(slowed);
          ASSERT_LT(machine.shares()[1], 100) << i;
        }
        int until_equal = 0;
        while (!machine.is_equal() && until_equal < kEpochs) {
          machine.epoch(steady);
          ++until_equal;
        }
        ASSERT_LE(until_equal, noise < 0.05 ? 3 : 5);
        for (int i = 0; i < kEpochs; ++i) ASSERT_FALSE(machine.epoch(steady)) << i;
      }
}

TEST(Balance, RoundedSharesOfASmallBatchDoNotHunt) {
  constexpr int kEpochs = 20, kSeeds = 50;
  for (const double noise : {0.0, 0.03})
    for (const int64_t samples : {8, 12, 16, 31, 64})
      for (const double slow : {20, 40, 50, 60})
        for (unsigned seed = 0; seed < kSeeds; ++seed) {
          SCOPED_TRACE(std::to_string(noise) + ", samples " + std::to_string(samples) + ", " + std::to_string(slow));
          Machine machine(noise, seed, 2, 0, samples);
          machine.epoch({100, slow});
          machine.epoch({100, slow});
          for (int i = 2; i < kEpochs; ++i) {
            machine.epoch({100, slow});
            ASSERT_FALSE(machine.is_equal()) << i;
          }
        }
}

TEST(Balance, SharesAreDescribed) {
  EXPECT_EQ(describe_shares({171, 85}, Speeds{200, 100}),
            "rank 0 1.34, rank 1 0.66 (rank 1 at 100 samples/s, rank 0 at 200)");
  EXPECT_EQ(describe_shares({8, 8, 8, 8, 8, 8, 8, 8, 4, 12}, Speeds{5, 5, 5, 5, 5, 5, 5, 5, 2, 9}),
            "from rank 8 0.50 to rank 9 1.50 (rank 8 at 2 samples/s, rank 9 at 9)");
}

}  // namespace
}  // namespace ddp::testing
