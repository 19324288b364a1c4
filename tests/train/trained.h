// What training changes, on CPU ranks and on emulated GPUs, to compare.
#pragma once

#include "tests/train/emulated_world.h"
#include "tests/train/world.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace ddp::testing {

constexpr int64_t kBatch = 8, kSamples = 26;  // three whole batches and a short one

struct Trained {
  std::vector<double> losses;
  std::vector<float> change;      // of the weights
  std::vector<float> statistics;  // running
};

inline Network two_norms() {
  return Network("two norms", {8, 8, 2})
      .conv2d(4, 3, {.stride = 2, .bias = false})
      .batch_norm()
      .relu()
      .conv2d(6, 3, {.padding = 1, .bias = false})
      .batch_norm({.unbiased = false})
      .relu()
      .global_avg_pool()
      .flatten()
      .dropout(0.3f)
      .linear(4);
}

// Its epsilon keeps the step of a gradient small that is only rounding.
constexpr OptimizerDesc kAdam{
    .kind = OptimizerDesc::Kind::adam, .epsilon = 1e-3f, .weight_decay = 1e-2f, .decoupled = true};

// Runs the steps [first, end). `change` may tamper with each batch.
inline Trained train_steps(Fixture& fixture, int64_t first, int64_t end,
                           const std::function<void(DeviceBatch&)>& change = {}) {
  const Replica& replica = fixture.replica;
  Trained trained{.losses = {}, .change = dense_weights(replica), .statistics = {}};
  trained.losses = fixture.losses(first, end, change);
  replica.check_replicas();
  const std::vector<float> after = dense_weights(replica);
  for (size_t i = 0; i < after.size(); ++i) trained.change[i] = after[i] - trained.change[i];
  trained.statistics = replica.download_stats(replica.running_stats());
  return trained;
}

// What rank 0 gets from the steps. `run` calls its argument on each rank of a world.
template <class Run>
Trained trained_by(const Run& run, const FixtureConfig& config, const Network& network, const Dataset& data,
                   int64_t steps) {
  Trained result;
  run([&](Communicator& c, Device& device, Ops& ops) {
    Fixture fixture(config, network, data, device, ops, c);
    const Trained mine = train_steps(fixture, 0, steps);
    if (c.rank() == 0) result = mine;
  });
  return result;
}

inline Trained trained_on_cpus(int ranks, const FixtureConfig& config, const Network& network, const Dataset& data,
                               int64_t steps) {
  return trained_by([&](const auto& work) { run_world(ranks, work); }, config, network, data, steps);
}

inline Trained trained_on_gpus(const GpuWorld& world, const FixtureConfig& config, const Network& network,
                               const Dataset& data, int64_t steps) {
  return trained_by([&](const auto& work) { on_gpus(world, work); }, config, network, data, steps);
}

struct Tolerance {
  double losses, change;
};

inline void expect_near(const Trained& actual, const Trained& expected, const Tolerance& tolerance) {
  EXPECT_LE(loss_distance(actual.losses, expected.losses), tolerance.losses);
  EXPECT_LE(distance(actual.change, expected.change), tolerance.change);
  EXPECT_LE(distance(actual.statistics, expected.statistics), tolerance.losses);
}

}  // namespace ddp::testing
