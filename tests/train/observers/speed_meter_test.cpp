#include "train/observers/speed_meter.h"

#include "tests/train/small.h"
#include "tests/train/world.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace ddp::testing {
namespace {

struct Case {
  int world;
  std::vector<double> rank_weights;
  int micro_batches = 1;
  ReplicaConfig replica = {};
};

double squares_of(std::span<const float> values) {
  double sum = 0;
  for (const float value : values) sum += double{value} * value;
  return sum;
}

// The noise scale of the gradients themselves: those of each rank before their sum, or of the first micro-batch, and
// the sum. The last step of an epoch is short and does not count, nor do the first two.
TEST(SpeedMeter, NoiseScaleIsThatOfTheGradients) {
  // Nearly all samples have one class, so the gradient is larger than its noise.
  std::vector<uint8_t> pixels(122 * 128), labels(122);
  for (size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<uint8_t>(i * 2654435761u >> 13);
  for (size_t i = 0; i < labels.size(); ++i) labels[i] = i % 8 == 0 ? 2 : 1;
  const MemoryDataset data({8, 8, 2}, 4, pixels, labels);
  for (const Case& c : {Case{2, {}}, Case{3, {3, 1, 2}}, Case{2, {}, 3}, Case{2, {}, 1, {.zero = true}},
                        Case{2, {}, 1, {.max_grad_norm = 0.01, .zero = true}}, Case{1, {}, 4}})
    run_world(c.world, [&](Communicator& rank, Device& device, Ops& ops) {
      FixtureConfig config{.batch_size = 24, .lr = 1e-4, .rank_weights = c.rank_weights, .replica = c.replica};
      config.step.micro_batches = c.micro_batches;
      Fixture fixture(config, norm_network(), data, device, ops, rank);
      Replica& r = fixture.replica;
      double mine = 0;  // of this rank's part of the step, or of the first micro-batch
      r.reducer.set_launch_hook([&, inner = r.reducer.launch_hook()](int number, const auto& run) {
        if (c.world > 1 && number < std::ssize(r.plan.buckets)) {
          const Bucket& bucket = r.plan.buckets[number];
          const int64_t end = std::min(bucket.offset + bucket.count, r.plan.gradients);
          mine += squares_of({r.gradients() + bucket.offset, r.gradients() + end});
        }
        inner(number, run);
      });
      const auto look = [&](const DeviceBatch& batch) {
        if (c.world == 1 && batch.plan.micro == 1) mine = squares_of({r.gradients(), r.gradients() + r.plan.gradients});
      };
      SpeedMeter meter(r, fixture.sampler());
      std::vector<double> sums(3);  // parts, whole; share
      fixture.each_step(18, look, [&](const StepResult& step) {
        meter.add(step);
        if (step.step > 2 && step.samples == 24) {
          sums[0] += mine;
          // The sum is in the gradients: of all, or of this rank's partitions.
          if (c.replica.zero)
            for (const Partition& part : partitions_of(r.plan, rank.rank(), rank.size()))
              sums[1] += squares_of({r.gradients() + part.begin, static_cast<size_t>(part.count)});
          else
            sums[1] += squares_of({r.gradients(), static_cast<size_t>(r.plan.gradients)}) / c.world;
        }
        mine = 0;
      });
      int64_t samples = 0;
      for (int micro = 0; micro < (c.world == 1 ? 1 : c.micro_batches); ++micro)
        samples += fixture.sampler().shard(0, micro).size();
      const double part = static_cast<double>(samples) / 24;
      sums[2] = part * part;
      rank.all_reduce_host(sums);
      const double expected =
          noise_scale({.parts = sums[0], .whole = sums[1], .share = sums[2], .noise = c.world == 1 ? part : 1}, 24);
      const auto speed = meter.take();
      ASSERT_TRUE(speed.has_value());
      ASSERT_TRUE(speed->noise_scale.has_value()) << expected;
      EXPECT_NEAR(*speed->noise_scale / expected, 1, 0.01) << expected;
      EXPECT_EQ(std::ssize(speed->ranks), c.world);
      EXPECT_EQ(speed->communication > 0, c.world > 1);
      double counted = 0;  // samples of this rank
      for (int64_t step = 2; step < 18; ++step)
        counted += static_cast<double>(fixture.sampler().plan(step * c.micro_batches).local_step_size);
      EXPECT_NEAR(speed->samples[rank.rank()], counted / 16, 1e-9);
      EXPECT_FALSE(meter.take().has_value());
      EXPECT_EQ(speed->computes_with_collectives, c.replica.zero);
    });
}

TEST(SpeedMeter, TheFirstTwoStepsWithNewShardsDoNotCount) {
  const MemoryDataset data = small_data(40);
  run_world(2, [&](Communicator& rank, Device& device, Ops& ops) {
    Fixture fixture({.batch_size = 16}, norm_network(), data, device, ops, rank);
    SpeedMeter meter(fixture.replica, fixture.sampler());
    const auto measured = [&](int64_t first, int64_t last) {
      for (int64_t step = first; step <= last; ++step) meter.add({.step = step, .samples = 16, .skipped = {}});
      return meter.take().has_value();
    };
    EXPECT_FALSE(measured(1, 2));
    EXPECT_TRUE(measured(3, 4));
    meter.shards_changed();
    EXPECT_FALSE(measured(5, 6));
    EXPECT_TRUE(measured(7, 7));
  });
}

// Three steps, the measurement, and three steps.
TEST(SpeedMeter, LeavesTheTrainingUnchanged) {
  const MemoryDataset data = small_data(40);
  for (const bool zero : {false, true})
    run_world(2, [&](Communicator& rank, Device& device, Ops& ops) {
      std::vector<std::vector<float>> weights;
      for (const bool measured : {false, true}) {
        Fixture fixture({.batch_size = 16, .replica = {.zero = zero}}, norm_network(), data, device, ops, rank);
        fixture.losses(0, 3);
        SpeedMeter meter(fixture.replica, fixture.sampler());
        for (int step = 0; measured && step < 3; ++step) meter.add({.samples = 16, .skipped = {}});
        EXPECT_EQ(meter.take().has_value(), measured);
        fixture.losses(3, 6);
        weights.push_back(fixture.replica.download_weights());
        const auto statistics = fixture.replica.download_stats(fixture.replica.running_stats());
        weights.back().insert(weights.back().end(), statistics.begin(), statistics.end());
      }
      EXPECT_EQ(weights[0], weights[1]);
    });
}

}  // namespace
}  // namespace ddp::testing
