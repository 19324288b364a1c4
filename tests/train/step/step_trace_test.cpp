// The spans of layers and buckets, with ranks as threads on the reference ops.
#include "train/step/step_trace.h"

#include "tests/spans.h"
#include "tests/train/small.h"
#include "tests/train/world.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

namespace ddp::testing {
namespace {

constexpr int64_t kTraced = 6;

std::map<int64_t, std::vector<Span>> by_step(const std::vector<Span>& spans) {
  std::map<int64_t, std::vector<Span>> steps;
  for (const Span& span : spans) steps[span.number].push_back(span);
  return steps;
}

// Steps of several micro-batches; the last batch of an epoch is short, and some shards are empty.
class StepTraces : public ::testing::TestWithParam<int> {};

TEST_P(StepTraces, HaveEachLayerAndBucketInItsPlace) {
  const int micro_batches = GetParam();
  const MemoryDataset data = small_data(33);
  run_world(2, [&](Communicator& c, Device& device, Ops& ops) {
    RecordedSpans spans;
    Fixture fixture({.batch_size = 16, .step = {.micro_batches = micro_batches}, .spans = &spans}, small_network(),
                    data, device, ops, c);
    fixture.losses(0, kTraced);
    const int recorded = std::min(micro_batches, 8);
    const auto layers = by_step(spans.of(Track::layers)), buckets = by_step(spans.of(Track::buckets));
    ASSERT_EQ(std::ssize(layers), kTraced);
    ASSERT_EQ(std::ssize(buckets), kTraced);
    for (int64_t step = 1; step <= kTraced; ++step) {
      std::map<std::string, std::vector<Span>> named;
      for (const Span& span : layers.at(step)) named[span.name].push_back(span);
      ASSERT_EQ(std::ssize(named["forward"]), recorded);
      ASSERT_EQ(std::ssize(named["backward"]), recorded);
      const std::vector<Span> convolutions = named["0 conv2d"];
      ASSERT_EQ(std::ssize(convolutions), 2 * recorded);
      for (int micro = 0; micro < recorded; ++micro) {
        EXPECT_TRUE(inside(convolutions[2 * micro], named["forward"][micro])) << step;
        EXPECT_TRUE(inside(convolutions[2 * micro + 1], named["backward"][micro])) << step;
        EXPECT_LE(named["forward"][micro].end_ns, named["backward"][micro].begin_ns) << step;
      }
      ASSERT_EQ(std::ssize(buckets.at(step)), fixture.replica.reducer.collectives());
      const Span& backward = named["backward"].back();  // of the last micro-batch
      ASSERT_EQ(named["updating the weights"].size(), 1u);
      for (const Span& bucket : buckets.at(step)) {
        EXPECT_GE(bucket.begin_ns, backward.begin_ns) << step;
        EXPECT_LE(bucket.begin_ns, bucket.end_ns) << step;
        EXPECT_LE(bucket.end_ns, named["updating the weights"][0].begin_ns) << step;
      }
      EXPECT_LT(buckets.at(step)[0].begin_ns, backward.end_ns) << "bucket 0 is ready before backward ends";
      EXPECT_STREQ(buckets.at(step)[1].name, "bucket 1");
    }
    c.barrier();
  });
}

INSTANTIATE_TEST_SUITE_P(, StepTraces, ::testing::Values(1, 3, 11));

TEST(StepTrace, ChangesNoResultAndRecordsOnlyWhileItIsOn) {
  const MemoryDataset data = small_data(50);
  RecordedSpans off;
  off.wanted = false;
  for (const bool zero : {false, true}) {
    FixtureConfig config{.batch_size = 16, .replica = {.zero = zero}};
    const Result plain = train_world(1, config, small_network(), data, 6);
    config.spans = &off;
    const Result traced = train_world(1, config, small_network(), data, 6);
    EXPECT_EQ(plain.losses, traced.losses);
    EXPECT_EQ(plain.weights, traced.weights);
  }
  EXPECT_TRUE(off.all().empty());
}

TEST(StepTrace, HasTheBucketsOfShardedSums) {
  const MemoryDataset data = small_data(48);
  run_world(3, [&](Communicator& c, Device& device, Ops& ops) {
    RecordedSpans spans;
    Fixture fixture({.batch_size = 16, .replica = {.zero = true}, .spans = &spans}, small_network(), data, device, ops,
                    c);
    fixture.losses(0, 4);
    const auto buckets = by_step(spans.of(Track::buckets));
    ASSERT_EQ(buckets.size(), 4u);
    for (const auto& [step, of_step] : buckets) {
      ASSERT_EQ(std::ssize(of_step), fixture.replica.reducer.collectives()) << step;
      EXPECT_STREQ(of_step.back().name, "trailer");
      for (const Span& bucket : of_step)  // that of an earlier collective would be over before it is ready
        EXPECT_LT(bucket.begin_ns, bucket.end_ns) << step;
      if (step > 1) {
        EXPECT_GT(of_step.front().begin_ns, buckets.at(step - 1).back().end_ns);
      }
    }
    c.barrier();
  });
}

}  // namespace
}  // namespace ddp::testing
