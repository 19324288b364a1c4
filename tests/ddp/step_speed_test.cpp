// The causes that limit a training, from times that are made up.
#include "ddp/step_speed.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

namespace ddp {
namespace {

using Kind = SpeedLimit::Kind;

std::vector<Kind> kinds(const StepSpeed& speed) {
  std::vector<Kind> found;
  for (const SpeedLimit& limit : speed_limits(speed)) found.push_back(limit.kind);
  return found;
}

TEST(StepSpeed, NamesEachCauseFromATenthOfAStepOn) {
  const StepSpeed computing{.ranks = {{0.1, 9, 0.9}, {0.1, 8.9, 1}}, .communication = 3};
  EXPECT_EQ(kinds(computing), (std::vector{Kind::computing}));
  EXPECT_EQ(speed_limits(computing).front().ms, 9);
  EXPECT_EQ(kinds({.ranks = {{30, 8, 2}, {31, 8, 1}}, .communication = 3}), (std::vector{Kind::data}));
  EXPECT_EQ(kinds({.ranks = {{0, 8, 92}, {0, 8, 90}}, .communication = 95}), (std::vector{Kind::communication}));
  EXPECT_EQ(kinds({.ranks = {{5, 35, 60}, {0, 8, 90}, {0, 9, 90}}, .communication = 95}),
            (std::vector{Kind::communication, Kind::slow_rank}));
  EXPECT_EQ(kinds({.ranks = {{2, 8, 0}}}), (std::vector{Kind::data}));
}

// A rank's waits for other ranks are not its own.
TEST(StepSpeed, SamplesPerSecondCountDataAndComputing) {
  const StepSpeed speed{.ranks = {{2, 8, 10}, {0, 20, 0}, {0, 1, 19}}, .samples = {4, 4, 0}};
  EXPECT_EQ(speed.samples_per_second(0), 400);
  EXPECT_EQ(speed.samples_per_second(1), 200);
  EXPECT_EQ(speed.samples_per_second(2), 0);
}

// The others' wait for a slow rank is no communication, and neither is the wait of all for each other.
TEST(StepSpeed, TellsASlowRankFromASlowLink) {
  const StepSpeed slow{.ranks = {{0, 10, 201}, {0, 208, 2}, {0, 12, 199}}, .communication = 4};
  EXPECT_EQ(slow.slowest(), 1);
  EXPECT_EQ(slow.exposed(), 2);
  EXPECT_EQ(slow.hidden(), 0.5);
  EXPECT_NEAR(slow.imbalance(), 208 / (230.0 / 3) - 1, 1e-12);
  const auto limits = speed_limits(slow);
  ASSERT_EQ(limits.size(), 1u);
  EXPECT_EQ(limits[0].kind, Kind::slow_rank);
  EXPECT_EQ(limits[0].ms, 208 - 11);

  const StepSpeed uneven{.ranks = {{0, 10, 5}, {0, 10.5, 4.5}}, .communication = 1};
  EXPECT_EQ(kinds(uneven), (std::vector{Kind::computing}));
}

TEST(StepSpeed, PredictsTwiceTheRanks) {
  const StepSpeed hidden{.ranks = {{2, 30, 0}, {2, 30, 0}}, .communication = 4};
  EXPECT_DOUBLE_EQ(step_on_twice_the_ranks(hidden), 1 + 15);
  // The volume grows from 1 to 1.5 times the data, and half stays exposed.
  const StepSpeed half{.ranks = {{0, 30, 4}, {0, 30, 4}}, .communication = 8};
  EXPECT_DOUBLE_EQ(step_on_twice_the_ranks(half), 15 + 6);
  // 15 ms of communication behind a backward pass of 4 ms.
  const StepSpeed small{.ranks = {{0, 12, 4}, {0, 12, 4}}, .communication = 10};
  EXPECT_DOUBLE_EQ(step_on_twice_the_ranks(small), 6 + 11);
  // Only the last of four micro-batches hides communication: 2 of 9 ms behind 3 ms of computing.
  const StepSpeed micro{.ranks = {{0, 24, 0}, {0, 24, 0}}, .communication = 6, .batch = 64, .micro_batches = 4};
  EXPECT_DOUBLE_EQ(step_on_twice_the_ranks(micro), 12 + 7);
  // Three samples on two ranks: the largest shard shrinks from two samples to one, and then no more.
  const StepSpeed three{.ranks = {{0, 10, 0}, {0, 10, 0}}, .batch = 3},
      two{.ranks = {{0, 10, 0}, {0, 10, 0}}, .batch = 2};
  EXPECT_DOUBLE_EQ(step_on_twice_the_ranks(three), 5);
  EXPECT_DOUBLE_EQ(step_on_twice_the_ranks(two), 10);
}

TEST(StepSpeed, ExplainsInSentences) {
  const std::vector<std::string> hosts{"a", "b"};
  const auto sentences =
      explain({.ranks = {{0, 10, 200}, {0, 208, 2}}, .communication = 4, .batch = 256, .noise_scale = 3000.4}, hosts);
  ASSERT_EQ(sentences.size(), 3u);
  EXPECT_EQ(
      sentences[2],
      "a larger batch would save steps, so more ranks would help: the gradient noise scale is about 3000 samples, "
      "the batch has 256");
  EXPECT_TRUE(sentences[0].starts_with("rank 1 on b limits this run: it computes 198.0 ms longer")) << sentences[0];
  EXPECT_TRUE(sentences[0].ends_with("; see what else runs there, or give it fewer samples with --rank-weights auto"));
  const auto balanced = explain({.ranks = {{0, 10, 200}, {0, 208, 2}}, .batch = 256, .balanced = true}, hosts);
  EXPECT_TRUE(balanced[0].ends_with("; see what else runs there")) << balanced[0];
  EXPECT_TRUE(sentences[1].starts_with("4 ranks")) << sentences[1];
  EXPECT_NE(sentences[1].find("about 206.0 ms"), std::string::npos) << sentences[1];
  EXPECT_NE(sentences[1].find("1.0 times as fast"), std::string::npos) << sentences[1];
  const auto uneven = explain({.ranks = {{0, 20, 0}, {0, 10, 10}}, .batch = 3}, hosts);
  EXPECT_TRUE(uneven[0].ends_with("; 3 samples do not divide evenly among 2 ranks; another --batch-size helps"))
      << uneven[0];
  const auto unknown = explain({.ranks = {{0, 10, 2}, {0, 10, 2}}, .computes_with_collectives = true}, hosts);
  ASSERT_EQ(unknown.size(), 2u);
  EXPECT_TRUE(unknown[0].starts_with("what limits this run is not known")) << unknown[0];
  const auto alone = explain({.ranks = {{0.2, 9.8, 0}}}, std::span(hosts).first(1));
  ASSERT_EQ(alone.size(), 3u);
  EXPECT_EQ(alone[2], "whether a larger batch would help is not known: one rank needs --accumulate for that");
  EXPECT_EQ(alone[0], "computing limits this run: 9.8 of 10.0 ms of a step (98 %)");
  EXPECT_NE(alone[1].find("not known from one rank"), std::string::npos);
}

}  // namespace
}  // namespace ddp
