// A world of another size resumes from a checkpoint. Ranks are threads on the reference ops; the checkpoint is on disk.
#include "tests/train/snapshot.h"

#include "tests/temp_folder.h"
#include "tests/train/small.h"
#include "tests/train/world.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

namespace ddp::testing {
namespace {

constexpr int64_t kSteps = 5;

FixtureConfig config(OptimizerDesc optimizer, bool zero) {
  return {.batch_size = 16, .lr = 0.01, .replica = {.optimizer = optimizer, .zero = zero, .sync_bn = true, .seed = 5}};
}

void run_fixtures(int size, const FixtureConfig& config, const std::function<void(Fixture&, Communicator&)>& work) {
  const MemoryDataset data = small_data(50);
  run_world(size, [&](Communicator& communicator, Device& device, Ops& ops) {
    Fixture fixture(config, norm_network(), data, device, ops, communicator);
    work(fixture, communicator);
  });
}

// The step after the checkpoint.
struct NextStep {
  std::vector<float> gradients, weights, state;
  double loss = 0;
};

NextStep next_step(Fixture& fixture) {
  const std::vector<double> losses = fixture.losses(kSteps, kSteps + 1);
  const Replica& r = fixture.replica;
  return {download_gradients(r), r.download_weights(), r.download_stats(r.running_stats()), losses[0]};
}

struct Worlds {
  int saved, resumed;
  bool zero_saved, zero_resumed;
};

class Snapshots : public ::testing::TestWithParam<std::tuple<Worlds, OptimizerDesc::Kind>> {};

TEST_P(Snapshots, ResumeAtAnyWorldSize) {
  const auto [worlds, kind] = GetParam();
  const OptimizerDesc optimizer{.kind = kind, .momentum = 0.9f};
  const TempFolder folder;
  std::filesystem::path path;
  NextStep expected;
  Snapshot saved;
  run_fixtures(worlds.saved, config(optimizer, worlds.zero_saved), [&](Fixture& fixture, Communicator& c) {
    fixture.losses(0, kSteps);
    const auto snapshot = take_snapshot(fixture.replica, {.step = kSteps}, kSteps);
    ASSERT_EQ(snapshot.has_value(), c.rank() == 0);
    if (snapshot) {
      saved = *snapshot;
      path = write_checkpoint(folder.path(), saved.view(), {fixture.replica.parameters, fixture.replica.batch_norms},
                              false);
    }
    const NextStep next = next_step(fixture);
    if (c.rank() == 0) expected = next;
  });
  run_fixtures(worlds.resumed, config(optimizer, worlds.zero_resumed), [&](Fixture& fixture, Communicator& c) {
    const Replica& r = fixture.replica;
    restore(fixture.replica, read_checkpoint(path, {r.parameters, r.batch_norms}, optimizer_state_names(r)));
    const auto restored = take_snapshot(fixture.replica, {.step = kSteps}, kSteps);
    const NextStep next = next_step(fixture);
    if (c.rank() != 0) return;
    // With partitioned optimizer state the offsets of parameters depend on the world size.
    const auto mine = parameters_of(norm_network(), worlds.zero_resumed ? partition_alignment(worlds.resumed) : 1);
    const auto theirs = parameters_of(norm_network(), worlds.zero_saved ? partition_alignment(worlds.saved) : 1);
    const auto as_mine = [&](const std::vector<float>& values) {
      std::vector<float> moved(next.weights.size());
      for (size_t i = 0; i < mine.size(); ++i)
        std::copy_n(values.begin() + theirs[i].offset, mine[i].count, moved.begin() + mine[i].offset);
      return moved;
    };
    EXPECT_EQ(restored->model.weights, as_mine(saved.model.weights));
    EXPECT_EQ(restored->model.statistics, saved.model.statistics);
    ASSERT_EQ(restored->optimizer.size(), saved.optimizer.size());
    for (size_t k = 0; k < saved.optimizer.size(); ++k)
      EXPECT_EQ(restored->optimizer[k].values, as_mine(saved.optimizer[k].values)) << k;

    EXPECT_NEAR(next.loss, expected.loss, 1e-5 * expected.loss);
    if (!worlds.zero_saved && !worlds.zero_resumed) {  // with partitioned state no rank has all gradient sums
      EXPECT_LE(gradient_distance(r.parameters, next.gradients, as_mine(expected.gradients)).value, 1e-4);
    }
    // Adam makes a full step even of a gradient that is only rounding, as that of a bias before a norm.
    std::vector<Parameter> compared = r.parameters;
    std::erase_if(compared, [&](const Parameter& p) {
      return kind == OptimizerDesc::Kind::adam && p.role != Parameter::Role::weight;
    });
    const auto update = [&](std::vector<float> weights) {
      for (size_t i = 0; i < weights.size(); ++i) weights[i] -= restored->model.weights[i];
      return weights;
    };
    EXPECT_LE(gradient_distance(compared, update(next.weights), update(as_mine(expected.weights))).value, 1e-4);
    for (size_t i = 0; i < next.state.size(); ++i) EXPECT_NEAR(next.state[i], expected.state[i], 1e-5);
    if (worlds.saved == worlds.resumed && worlds.zero_saved == worlds.zero_resumed) {
      EXPECT_EQ(next.weights, expected.weights);
      EXPECT_EQ(next.state, expected.state);
    }
  });
}

INSTANTIATE_TEST_SUITE_P(, Snapshots,
                         ::testing::Combine(::testing::Values(Worlds{2, 2, false, false}, Worlds{2, 3, false, false},
                                                              Worlds{3, 1, false, false}, Worlds{3, 3, true, true},
                                                              Worlds{3, 2, true, false}, Worlds{1, 4, false, true}),
                                            ::testing::Values(OptimizerDesc::Kind::sgd, OptimizerDesc::Kind::adam)));

}  // namespace
}  // namespace ddp::testing
