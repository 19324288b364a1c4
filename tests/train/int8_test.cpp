// Training with gradients in int8 between hosts, each of which is a thread.
#include "tests/temp_folder.h"
#include "tests/train/small.h"
#include "tests/train/snapshot.h"
#include "tests/train/world.h"
#include "train/observers/measure_costs.h"
#include "train/observers/speed_meter.h"
#include "train/step/residual.h"

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

// The sum of the residuals of all hosts. Collective.
std::vector<double> residual_sum(Replica& replica) {
  std::vector<double> sum(replica.plan.gradients);
  for (int host = 0; host < replica.communicator.place().hosts; ++host) {
    std::vector<float> of_host(sum.size());
    download_residual(replica, host, of_host.data());
    for (size_t i = 0; i < of_host.size(); ++i) sum[i] += of_host[i];
  }
  return sum;
}

class Int8Training : public ::testing::TestWithParam<bool> {};  // whether the optimizer's state is sharded
INSTANTIATE_TEST_SUITE_P(, Int8Training, ::testing::Values(false, true));

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

// Batches of two and of one sample: ranks without samples send what is left in their residual.
TEST_P(Int8Training, EmptyShardsTakePart) {
  const MemoryDataset data = small_data(9);
  FixtureConfig few = config(GetParam()), f32 = config(false, GradDType::fp32);
  few.batch_size = f32.batch_size = 2;
  const Result expected = train_world(1, f32, small_network(), data, 10);
  const double losses = loss_distance(train_world(3, few, small_network(), data, 10).losses, expected.losses);
  EXPECT_LE(losses, 1e-2);
  EXPECT_GT(losses, 1e-6);
}

// Five ranks leave a padding behind the gradients, which sums in int8 write too.
TEST_P(Int8Training, ResumesWithTheSameBits) {
  constexpr int kWorld = 5;
  ASSERT_NE(flat_count(parameters_of(norm_network())) % kWorld, 0);
  const MemoryDataset data = small_data(50);
  const TempFolder folder;
  std::filesystem::path path;
  std::vector<float> expected, found, without;
  run_world(kWorld, [&](Communicator& c, Device& device, Ops& ops) {
    Fixture fixture(config(GetParam()), norm_network(), data, device, ops, c);
    Replica& r = fixture.replica;
    fixture.losses(0, 5);
    const auto snapshot = take_snapshot(r, {.step = 5}, 5);
    if (snapshot) {
      EXPECT_EQ(snapshot->residuals.size(), size_t{kWorld});
      path = write_checkpoint(folder.path(), snapshot->view(), {r.parameters, r.batch_norms}, false);
    }
    fixture.losses(5, 9);
    const std::vector<float> weights = r.download_weights();
    if (c.rank() == 0) expected = weights;
  });
  for (const bool forgets : {false, true})
    run_world(kWorld, [&](Communicator& c, Device& device, Ops& ops) {
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
        EXPECT_EQ(r.sums_in_int8(), world > 1 && dtype == GradDType::int8);
        if (r.sums_in_int8()) {
          const std::vector<double> after = residual_sum(r);
          const auto then = parameters_of(small_network(), GetParam() ? partition_alignment(3) : 1),
                     now = parameters_of(small_network(), GetParam() ? partition_alignment(world) : 1);
          for (size_t p = 0; c.rank() == 0 && p < then.size(); ++p)
            for (int64_t i = 0; i < then[p].count; ++i)
              ASSERT_NEAR(after[now[p].offset + i], before[then[p].offset + i], 1e-8) << then[p].name;
        }
        EXPECT_EQ(fixture.losses(5, 7).size(), 2u);
      });
}

// The gradients of the bad step are finite but for one in the first bucket.
TEST_P(Int8Training, ABadStepLeavesTheResiduals) {
  const MemoryDataset data = small_data(50);
  run_world(5, [&](Communicator& c, Device& device, Ops& ops) {
    FixtureConfig skips = config(GetParam());
    skips.step.skip_limit = 1;
    Fixture fixture(skips, small_network(), data, device, ops, c);
    Replica& r = fixture.replica;
    fixture.losses(0, 2);
    const std::vector<float> weights = r.download_weights();
    const std::vector<double> residual = residual_sum(r);
    EXPECT_TRUE(std::ranges::any_of(residual, [](double value) { return value != 0; }));
    const LaunchHook plain = r.reducer.launch_hook();
    r.reducer.set_launch_hook([&](int number, const std::function<void()>& launch) {
      if (number == 0) r.gradients()[0] = NAN;
      plain(number, launch);
    });
    fixture.losses(2, 3);
    r.reducer.set_launch_hook(plain);
    EXPECT_EQ(r.download_weights(), weights);
    EXPECT_EQ(residual_sum(r), residual);
    const std::vector<double> losses = fixture.losses(3, 8);
    EXPECT_TRUE(std::ranges::all_of(losses, [](double loss) { return loss < 10; }));
    EXPECT_NE(residual_sum(r), residual);
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
    SpeedMeter meter(fixture.replica, fixture.sampler());
    StepResult step{};
    for (step.step = 1; step.step <= 4; ++step.step) meter.add(step);
    EXPECT_TRUE(meter.take());
    EXPECT_EQ(residual_sum(fixture.replica), before);
  });
}

}  // namespace
}  // namespace ddp::testing
