// What a run on emulated GPUs does beside plain steps: bad and skipped steps, recomputed statistics of batch norms,
// checkpoints.
#include "comm/local/heartbeat_table.h"
#include "tests/emulator/seeds.h"
#include "tests/train/bad_step.h"
#include "tests/train/flipped_bit.h"
#include "tests/train/small.h"
#include "tests/train/snapshot.h"
#include "tests/train/trained.h"
#include "train/evaluation/precise_bn.h"
#include "train/fault_injection.h"
#include "train/observers/measure_costs.h"
#include "train/observers/reporter.h"
#include "train/trainer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace ddp::testing {
namespace {

using emulator::for_each_seed;

constexpr int64_t kSaved = 3, kEnd = 5;  // steps

class EmulatedState : public ::testing::TestWithParam<GpuWorld> {
 protected:
  static FixtureConfig config(OptimizerDesc optimizer, bool zero = false) {
    return {.batch_size = kBatch,
            .lr = 0.02,
            .replica = {.optimizer = optimizer, .zero = zero, .sync_bn = true, .seed = 5},
            .device_data_bytes = GetParam().device_data_bytes()};
  }
};
INSTANTIATE_TEST_SUITE_P(, EmulatedState,
                         ::testing::Values(GpuWorld{"nccl_2", 2, true, true, true},
                                           GpuWorld{"staged_2_streamed", 2, false, true, false}),
                         [](const auto& tested) { return tested.param.name; });

TEST_P(EmulatedState, NanEndsTheRunOnEveryRank) {
  for_each_seed([&] {
    std::vector<std::string> messages(GetParam().size);
    on_gpus(GetParam(),
            [&](Communicator& c, Device& device, Ops& ops) { messages[c.rank()] = train_from_a_nan(c, device, ops); });
    expect_one_message_about_step_1(messages);
  });
}

TEST_P(EmulatedState, ReplicaCheckNamesTheTensorOfAFlippedBit) {
  for_each_seed([&] { on_gpus(GetParam(), expect_a_flipped_bit_is_named); });
}

// With the buckets of the constant sizes, and after a measurement with others. Times are those of the device.
TEST_P(EmulatedState, MeasuredCostsChangeNoBits) {
  const MemoryDataset data = small_data(4 * kBatch);
  for_each_seed([&] {
    std::array<std::vector<float>, 2> weights;
    for (const bool measured : {false, true})
      on_gpus(GetParam(), [&](Communicator& c, Device& device, Ops& ops) {
        Fixture fixture(config({.momentum = 0.9f}), two_norms(), data, device, ops, c);
        if (measured) {
          const StepCosts costs = measure_costs(fixture.replica, data, fixture.sampler());
          EXPECT_EQ(costs.ready_ms.size(), fixture.replica.plan.parameter_counts.size());
          EXPECT_TRUE(std::ranges::is_sorted(costs.ready_ms));
          EXPECT_GE(costs.compute_ms, costs.ready_ms.back());
          fixture.replica.set_buckets(std::vector<ParameterId>{0, 1, 3});
        }
        fixture.losses(0, kEnd);
        if (c.rank() == 0) weights[measured] = fixture.replica.download_weights();
      });
    EXPECT_EQ(weights[0], weights[1]);
  });
}

// A replay of step 4 would not call the reducer's hook, so the injection must prevent it.
TEST_P(EmulatedState, ErrorNamesRankAndBucketOfAnInjectedNan) {
  const MemoryDataset data = small_data(4 * kBatch);
  const int rank = GetParam().size - 1;
  for_each_seed([&] {
    std::vector<std::string> messages(GetParam().size);
    on_gpus(GetParam(), [&](Communicator& c, Device& device, Ops& ops) {
      Fixture fixture({.batch_size = kBatch}, small_network(), data, device, ops, c);
      DeviceDataset on_device(device, data, fixture.largest(), {.device_bytes = size_t{1} << 30});
      Prefetcher prefetcher(on_device, fixture.sampler(), 0, 6, kTrainingFences);
      const NextBatch next = with_fault({.rank = rank, .step = 4, .kind = FaultInjection::Kind::nan}, fixture.replica,
                                        0, [&]() -> const DeviceBatch& { return prefetcher.next(); });
      Step step(fixture.replica);
      try {
        for (int k = 0; k < 6; ++k) step.run(next, 0.01);
      } catch (const CollectiveError& e) {
        messages[c.rank()] = e.what();
      }
    });
    for (const std::string& message : messages)
      EXPECT_NE(message.find(fmt::format("at step 4 on rank {}: a gradient of bucket 0", rank)), std::string::npos)
          << message;
  });
}

// Step 3 would replay a graph; a rank injects a NaN into its gradients. Weights, momentum, statistics and the average
// of the other steps are as on one rank with the same fault.
TEST_P(EmulatedState, SkippedStepChangesNothing) {
  constexpr int64_t kBad = 3;
  const MemoryDataset data = small_data(kSamples);
  FixtureConfig skipping = config({.momentum = 0.9f});
  skipping.step.skip_limit = 1;
  const auto train = [&](Communicator& c, Device& device, Ops& ops) {
    FixtureConfig mine = skipping;
    mine.replica.zero = c.size() > 1;
    mine.replica.averages = true;
    Fixture fixture(mine, two_norms(), data, device, ops, c);
    DeviceBatch given;
    const NextBatch faulty = with_fault({.rank = c.size() - 1, .step = kBad, .kind = FaultInjection::Kind::nan},
                                        fixture.replica, 0, [&]() -> const DeviceBatch& { return given; });
    const Trained trained = train_steps(fixture, 0, kEnd, [&](DeviceBatch& batch) {
      given = batch;
      batch = faulty();
    });
    const Replica& r = fixture.replica;
    return std::pair(trained, dense(r, r.download(r.average->weights(), r.plan.gradients)));
  };
  Trained expected;
  std::vector<float> average;
  run_world(1, [&](Communicator& c, Device& device, Ops& ops) { std::tie(expected, average) = train(c, device, ops); });
  const Trained all = trained_on_cpus(1, skipping, two_norms(), data, kEnd);
  EXPECT_GT(distance(all.change, expected.change), 1e-2) << "no step was skipped";
  for_each_seed([&] {
    on_gpus(GetParam(), [&](Communicator& c, Device& device, Ops& ops) {
      const auto [trained, its_average] = train(c, device, ops);
      expect_near(trained, expected, {2e-5, 1e-3});
      EXPECT_LE(distance(its_average, average), 1e-5);
    });
  });
}

// Rank 1 is slow after the first epoch. The graphs of the steps, evaluations and statistics of other shards are
// dropped.
TEST_P(EmulatedState, RanksWithOtherSharesTrainAsBefore) {
  Datasets data{.train = std::make_unique<MemoryDataset>(small_data(kSamples)),
                .test = std::make_unique<MemoryDataset>(small_data(2 * kBatch))};
  const Network network = norm_network();
  struct Run {
    std::vector<float> weights;
    int64_t correct = 0;
  };
  const auto train = [&](bool balanced, Communicator& c, Device& device, Ops& ops) {
    const auto sampler = [&](const Dataset& of, Order order) {
      return DistributedSampler(of.size(), kBatch, order, 0, c.rank(), std::vector<double>(c.size(), 1.0));
    };
    const Samplers samplers{.train = sampler(*data.train, Order::shuffled),
                            .test = sampler(*data.test, Order::sequential),
                            .statistics = sampler(*data.train, Order::sequential),
                            .balanced = balanced};
    ReplicaConfig of_replica = config({}).replica;
    of_replica.batch_sizes = samplers.batch_sizes();
    Replica replica(network, of_replica, device, ops, c);
    std::vector<float> initial(replica.weights_count);
    initialize(initial, replica.parameters, {}, 0);
    replica.load(initial);
    TrainConfig training;
    training.epochs = 3;
    training.schedule.lr = 0.02;
    training.data_placement.device_bytes = GetParam().device_data_bytes();
    training.plan_models = [&](const Samplers& now) {
      replica.model.plan(network, replica.parameters, replica.batch_norms, now.batch_sizes());
    };
    int64_t local = 0;
    training.replace_speeds = [](int64_t epoch, std::vector<double>& speeds) {
      speeds.assign(speeds.size(), 100);
      if (epoch == 1) speeds.back() = 40;
    };
    training.batch_source = [&local](NextBatch next) {
      return [&local, next]() -> const DeviceBatch& {
        const DeviceBatch& batch = next();
        if (batch.plan.epoch == 1 && batch.plan.step == 0) local = batch.size;
        return batch;
      };
    };
    const auto tables = make_local_heartbeat_tables(c.size());
    PhaseTracker phases(*tables[c.rank()]);
    Reporter nobody;
    const TrainReport report = ddp::train(training, replica, data, samplers, {.reporter = nobody, .phases = phases});
    EXPECT_EQ(local < kBatch / c.size(), balanced && c.rank() + 1 == c.size());
    return Run{replica.download_weights(), report.evaluation->correct};
  };
  Run expected;
  run_world(2, [&](Communicator& c, Device& device, Ops& ops) {
    const Run run = train(false, c, device, ops);
    if (c.rank() == 0) expected = run;
  });
  for_each_seed([&] {
    on_gpus(GetParam(), [&](Communicator& c, Device& device, Ops& ops) {
      const Run run = train(true, c, device, ops);
      EXPECT_LE(distance(run.weights, expected.weights), 1e-4);
      EXPECT_EQ(run.correct, expected.correct);
    });
  });
}

// The second recomputation replays graphs. Recomputation changes no training state.
TEST_P(EmulatedState, RecomputedStatisticsAreThoseOfOneRank) {
  const MemoryDataset data = small_data(kSamples);
  const auto recompute = [&](Communicator& c, Device& device, Ops& ops) {
    Fixture fixture(config({}), two_norms(), data, device, ops, c);
    fixture.losses(0, 2);
    Replica& r = fixture.replica;
    const auto weights = r.download_weights(), statistics = r.download_stats(r.running_stats());
    const DistributedSampler sequential(data.size(), kBatch, Order::sequential, 0, c.rank(),
                                        std::vector<double>(c.size(), 1.0));
    PreciseBn precise_bn(r, data, sequential, {.device_bytes = GetParam().device_data_bytes()});
    precise_bn.run();
    const auto first = r.download_stats(r.eval_stats());
    precise_bn.run();
    EXPECT_EQ(r.download_stats(r.eval_stats()), first);
    EXPECT_EQ(r.download_weights(), weights);
    EXPECT_EQ(r.download_stats(r.running_stats()), statistics);
    return first;
  };
  std::vector<float> expected;
  run_world(1, [&](Communicator& c, Device& device, Ops& ops) { expected = recompute(c, device, ops); });
  for_each_seed([&] {
    on_gpus(GetParam(), [&](Communicator& c, Device& device, Ops& ops) {
      EXPECT_LE(distance(recompute(c, device, ops), expected), 1e-5);
    });
  });
}

// A checkpoint after step 3 resumes on another kind of device with the steps that would have followed.
struct Resumed {
  Snapshot snapshot;
  Trained next;
};

Resumed save(Fixture& fixture) {
  fixture.losses(0, kSaved);
  const auto snapshot = take_snapshot(fixture.replica, {.step = kSaved}, kSaved);
  return {snapshot.value_or(Snapshot{}), train_steps(fixture, kSaved, kEnd)};
}

// The state that a checkpoint of the restored replica would have is that of `saved`, in the layout of this world.
void expect_resumes(Fixture& fixture, const Resumed& saved) {
  restore(fixture.replica, saved.snapshot);
  if (const auto again = take_snapshot(fixture.replica, {.step = kSaved}, kSaved)) {
    EXPECT_EQ(again->model.weights, saved.snapshot.model.weights);
    EXPECT_EQ(again->model.statistics, saved.snapshot.model.statistics);
    ASSERT_EQ(again->optimizer.size(), 2u);
    for (size_t k = 0; k < 2; ++k) EXPECT_EQ(again->optimizer[k].values, saved.snapshot.optimizer[k].values) << k;
  }
  expect_near(train_steps(fixture, kSaved, kEnd), saved.next, {2e-5, 1e-3});
}

TEST_P(EmulatedState, SnapshotsAreInPinnedMemoryThatIsKept) {
  const MemoryDataset data = small_data(kSamples);
  on_gpus(GetParam(), [&](Communicator& c, Device& device, Ops& ops) {
    Fixture fixture(config(kAdam, true), two_norms(), data, device, ops, c);
    SnapshotBuffers buffers(fixture.replica);
    const auto first = buffers.take({.step = 0}, 0);
    ASSERT_EQ(first.has_value(), c.rank() == 0);
    fixture.losses(0, 1);
    const auto second = buffers.take({.step = 1}, 1);
    if (!second) return;
    const auto expect_kept = [](std::span<const float> before, std::span<const float> after) {
      EXPECT_EQ(before.data(), after.data());
      void* mapped = nullptr;
      EXPECT_EQ(cudaHostGetDevicePointer(&mapped, const_cast<float*>(after.data()), 0), cudaSuccess) << "not pinned";
    };
    expect_kept(first->model.weights, second->model.weights);
    expect_kept(first->model.statistics, second->model.statistics);
    for (size_t k = 0; k < 2; ++k) expect_kept(first->optimizer[k].values, second->optimizer[k].values);
    EXPECT_EQ(copy_of(second->model.weights), fixture.replica.download_weights());
  });
}

TEST_P(EmulatedState, CheckpointGoesFromTheDeviceToADeviceAndTheCpu) {
  const GpuWorld& world = GetParam();
  const MemoryDataset data = small_data(kSamples);
  const FixtureConfig adam = config(kAdam, true);
  const auto resume = [&](const Resumed& saved) {
    return [&](Communicator& c, Device& device, Ops& ops) {
      Fixture fixture(adam, two_norms(), data, device, ops, c);
      expect_resumes(fixture, saved);
    };
  };
  const auto save_into = [&](Resumed& saved) {
    return [&](Communicator& c, Device& device, Ops& ops) {
      Fixture fixture(adam, two_norms(), data, device, ops, c);
      const Resumed mine = save(fixture);
      if (c.rank() == 0) saved = mine;
    };
  };
  Resumed cpu;
  run_world(world.size, save_into(cpu));
  for_each_seed([&] {
    Resumed gpu;
    on_gpus(world, save_into(gpu));
    on_gpus(world, resume(gpu));
    run_world(world.size, resume(gpu));
    on_gpus(world, resume(cpu));
  });
}

}  // namespace
}  // namespace ddp::testing
