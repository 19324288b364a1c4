// Training with gradients in int8 between hosts, each of which is a thread.
#include "tests/temp_folder.h"
#include "tests/train/small.h"
#include "tests/train/snapshot.h"
#include "tests/train/world.h"
#include "train/observers/measure_costs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <vector>

namespace ddp::testing {
namespace {

FixtureConfig config(bool zero, GradDType dtype = GradDType::int8) {
  return {.batch_size = 16,
          .lr = 0.02,
          .replica = {.optimizer = {.momentum = 0.9f}, .zero = zero, .grad_dtype = dtype, .seed = 5}};
}

// The sum of the residuals of all hosts. Collective; on rank 0.
std::vector<double> residual_sum(Replica& replica) {
  std::vector<double> sum(replica.plan.gradients);
  for (int host = 0; host < replica.communicator.place().hosts; ++host) {
    const std::vector<float> of_host = replica.download_residual(host);
    for (size_t i = 0; i < of_host.size(); ++i) sum[i] += of_host[i];
  }
  return sum;
}

class Int8Training : public ::testing::TestWithParam<bool> {};  // whether the optimizer's state is sharded
INSTANTIATE_TEST_SUITE_P(, Int8Training, ::testing::Values(false, true));

// The gradients of the steps and the residuals behind them add up to those of f32: with momentum 0 the weights do too.
TEST_P(Int8Training, LearnsAsInF32) {
  const MemoryDataset data = small_data(50);
  const Result f32 = train_world(1, config(false, GradDType::fp32), small_network(), data, 12);
  for (const int world : {2, 3}) {
    const Result int8 = train_world(world, config(GetParam()), small_network(), data, 12);
    const double losses = loss_distance(int8.losses, f32.losses);
    EXPECT_LE(losses, 2e-3) << world;
    EXPECT_GT(losses, 1e-6) << world;  // otherwise nothing was rounded
  }
}

TEST_P(Int8Training, OneRankIsF32) {
  const MemoryDataset data = small_data(50);
  EXPECT_EQ(train_world(1, config(GetParam()), small_network(), data, 5).weights,
            train_world(1, config(GetParam(), GradDType::fp32), small_network(), data, 5).weights);
}

// Batches of one sample: the other ranks send what is left in their residual.
TEST_P(Int8Training, EmptyShardsTakePart) {
  const MemoryDataset data = small_data(9);
  FixtureConfig few = config(GetParam()), f32 = config(false, GradDType::fp32);
  few.batch_size = f32.batch_size = 1;
  const Result expected = train_world(1, f32, small_network(), data, 9);
  EXPECT_LE(loss_distance(train_world(3, few, small_network(), data, 9).losses, expected.losses), 1e-2);
}

TEST_P(Int8Training, ResumesWithTheSameBits) {
  const MemoryDataset data = small_data(50);
  const TempFolder folder;
  std::filesystem::path path;
  std::vector<float> expected, found, without;
  run_world(3, [&](Communicator& c, Device& device, Ops& ops) {
    Fixture fixture(config(GetParam()), norm_network(), data, device, ops, c);
    Replica& r = fixture.replica;
    fixture.losses(0, 5);
    const auto snapshot = take_snapshot(r, {.step = 5}, 5);
    if (snapshot) {
      EXPECT_EQ(snapshot->residuals.size(), 3u);
      path = write_checkpoint(folder.path(), snapshot->view(), {r.parameters, r.batch_norms}, false);
    }
    fixture.losses(5, 9);
    const std::vector<float> weights = r.download_weights();
    if (c.rank() == 0) expected = weights;
  });
  for (const bool forgets : {false, true})
    run_world(3, [&](Communicator& c, Device& device, Ops& ops) {
      Fixture fixture(config(GetParam()), norm_network(), data, device, ops, c);
      Replica& r = fixture.replica;
      Snapshot snapshot = read_checkpoint(path, {r.parameters, r.batch_norms}, optimizer_state_names(r));
      if (forgets) snapshot.residuals.clear();
      restore(r, snapshot);
      fixture.losses(5, 9);
      const std::vector<float> weights = r.download_weights();
      if (c.rank() == 0) (forgets ? without : found) = weights;
    });
  EXPECT_EQ(found, expected);
  EXPECT_NE(without, expected);
}

// Another number of hosts shares out the same sum. Without int8 a run reads the checkpoint too.
TEST_P(Int8Training, OtherHostsTakeTheResidualOver) {
  const MemoryDataset data = small_data(50);
  const TempFolder folder;
  std::filesystem::path path;
  std::vector<double> before;
  run_world(3, [&](Communicator& c, Device& device, Ops& ops) {
    Fixture fixture(config(GetParam()), small_network(), data, device, ops, c);
    Replica& r = fixture.replica;
    fixture.losses(0, 5);
    const auto snapshot = take_snapshot(r, {.step = 5}, 5);
    if (snapshot) path = write_checkpoint(folder.path(), snapshot->view(), {r.parameters, r.batch_norms}, false);
    const std::vector<double> sum = residual_sum(r);
    if (c.rank() == 0) before = sum;
  });
  for (const int world : {1, 2, 4})
    for (const GradDType dtype : {GradDType::int8, GradDType::fp32})
      run_world(world, [&](Communicator& c, Device& device, Ops& ops) {
        Fixture fixture(config(GetParam(), dtype), small_network(), data, device, ops, c);
        Replica& r = fixture.replica;
        restore(r, read_checkpoint(path, {r.parameters, r.batch_norms}, optimizer_state_names(r)));
        EXPECT_EQ(r.residual() != nullptr, world > 1 && dtype == GradDType::int8);
        if (r.residual()) {
          const std::vector<double> after = residual_sum(r);
          const auto small = parameters_of(small_network()),
                     padded = parameters_of(small_network(), GetParam() ? partition_alignment(world) : 1);
          for (size_t p = 0; c.rank() == 0 && !GetParam() && p < small.size(); ++p)
            for (int64_t i = 0; i < small[p].count; ++i)
              ASSERT_NEAR(after[padded[p].offset + i], before[small[p].offset + i], 1e-8) << small[p].name;
        }
        EXPECT_EQ(fixture.losses(5, 7).size(), 2u);
      });
}

TEST_P(Int8Training, ABadStepLeavesFiniteResiduals) {
  const MemoryDataset data = small_data(50);
  run_world(2, [&](Communicator& c, Device& device, Ops& ops) {
    FixtureConfig skips = config(GetParam());
    skips.step.skip_limit = 1;
    Fixture fixture(skips, small_network(), data, device, ops, c);
    Replica& r = fixture.replica;
    int64_t step = 0;
    float kept = 0;
    std::vector<float> before;
    fixture.each_step(
        6,
        [&](DeviceBatch&) {
          if (step != 2) return;
          before = r.download_weights();
          kept = std::exchange(r.weights()[0], NAN);
          r.model.bind();
        },
        [&](const StepResult&) {
          if (step++ != 2) return;
          r.weights()[0] = kept;
          r.model.bind();
          EXPECT_EQ(r.download_weights(), before);
        });
    EXPECT_TRUE(std::ranges::all_of(residual_sum(r), [](double value) { return std::isfinite(value); }));
    EXPECT_TRUE(std::ranges::all_of(r.download_weights(), [](float value) { return std::isfinite(value); }));
  });
}

TEST_P(Int8Training, MeasurementsChangeNoResidual) {
  const MemoryDataset data = small_data(50);
  run_world(2, [&](Communicator& c, Device& device, Ops& ops) {
    Fixture fixture(config(GetParam()), small_network(), data, device, ops, c);
    fixture.losses(0, 3);
    const std::vector<double> before = residual_sum(fixture.replica);
    EXPECT_TRUE(c.rank() != 0 || std::ranges::any_of(before, [](double value) { return value != 0; }));
    measure_costs(fixture.replica, data, fixture.sampler());
    EXPECT_EQ(residual_sum(fixture.replica), before);
  });
}

}  // namespace
}  // namespace ddp::testing
