// Training on emulated GPUs gives the losses and gradients of one rank on the CPU: with and without graphs, over the
// emulated NCCL and staged through the host, with resident and with streamed data. The emulator runs kernels compiled
// for the CPU, and streams in any order that events allow.
#include "comm/nccl/communicator.h"
#include "comm/staged.h"
#include "core/error.h"
#include "device/cuda/device.h"
#include "nn/models.h"
#include "ops/cuda/ops.h"
#include "tests/spans.h"
#include "tests/train/bad_step.h"
#include "tests/train/faults.h"
#include "tests/train/small.h"
#include "tests/train/world.h"
#include "train/evaluation.h"
#include "train/fault_injection.h"

#include <emulator/emulator.h>
#include <gtest/gtest.h>
#include <nccl.h>

#include <atomic>

namespace ddp::testing {
namespace {

struct GpuWorld {
  const char* name;
  int size;
  bool nccl, graphs, resident;
};

void PrintTo(const GpuWorld& world, std::ostream* out) { *out << world.name; }

using Work = std::function<void(Communicator&, Device&, Ops&)>;

void on_gpus(const GpuWorld& world, const Work& work) {
  run_ranks(world.size, [&](Communicator& host) {
    const auto device = make_cuda_device({.index = 0, .graphs = world.graphs});
    const auto ops = make_cuda_ops(*device, {.precision = Precision::fp32, .deterministic = true, .agree = {}});
    const auto communicator = world.nccl ? make_nccl_communicator(*device, host, {})
                                         : make_staged_communicator(*device, host, kTransportFences);
    work(*communicator, *device, *ops);
  });
}

class EmulatedTraining : public ::testing::TestWithParam<GpuWorld> {};

TEST_P(EmulatedTraining, MatchesOneRankOnTheCpu) {
  const GpuWorld& world = GetParam();
  for (const int64_t samples : {50, 3})  // a short last batch; empty shards
    for (const uint64_t seed : {0, 1, 2}) {
      if (samples == 3 && seed > 0) continue;  // such steps issue little work
      emulator::set_seed(seed);
      const MemoryDataset data = small_data(samples);
      const FixtureConfig config{
          .batch_size = 16, .lr = 0.1, .device_data_bytes = world.resident ? size_t{1} << 30 : 0};
      const Result expected = train_world(1, config, small_network(), data, 14);
      Result actual;
      on_gpus(world, [&](Communicator& c, Device& device, Ops& ops) {
        const Result mine = train(config, small_network(), data, 14, c, device, ops);
        if (c.rank() == 0) actual = mine;
      });
      EXPECT_LE(loss_distance(actual.losses, expected.losses), 1e-5) << samples << " samples, seed " << seed;
      EXPECT_LE(gradient_distance(parameters_of(small_network()), actual.gradients, expected.gradients).value, 1e-4);
    }
}

struct Variant {
  const char* name;
  int64_t samples;  // 3 gives empty shards
  ReplicaConfig replica;
  int micro_batches = 1;
};

// Synchronized batch norm, dropout, augmentation and momentum; micro-batches; partitioned optimizer state. The fifth
// step is in another epoch.
TEST_P(EmulatedTraining, MatchesWithBatchNormMicroBatchesAndPartitionedState) {
  const GpuWorld& world = GetParam();
  ReplicaConfig plain{.optimizer = {.momentum = 0.9f, .weight_decay = 1e-3f},
                      .sync_bn = true,
                      .seed = 3,
                      .augmentation = {.alternate_flip = true, .crop_padding = 2}};
  ReplicaConfig parts = plain;
  parts.zero = true;
  parts.max_grad_norm = 0.7;
  for (const auto& [name, samples, replica, micro_batches] :
       {Variant{"plain", 50, plain}, Variant{"plain", 3, plain}, Variant{"micro-batches", 50, plain, 3},
        Variant{"state in parts", 50, parts}}) {
    const MemoryDataset data = small_data(samples);
    FixtureConfig config{.batch_size = 16,
                         .lr = 0.02,
                         .replica = replica,
                         .step = {.micro_batches = micro_batches},
                         .device_data_bytes = world.resident ? size_t{1} << 30 : 0};
    std::vector<double> expected, actual;
    run_world(1, [&](Communicator& c, Device& device, Ops& ops) {
      expected = Fixture(config, norm_network(), data, device, ops, c).losses(0, 5);
    });
    on_gpus(world, [&](Communicator& c, Device& device, Ops& ops) {
      const auto mine = Fixture(config, norm_network(), data, device, ops, c).losses(0, 5);
      if (c.rank() == 0) actual = mine;
    });
    EXPECT_LE(loss_distance(actual, expected), 2e-5) << name << ", " << samples << " samples";
  }
}

// Replayed graphs write the timestamps of their capture; the third full step is the first replay.
TEST_P(EmulatedTraining, TraceHasEachStepOnceAndChangesNoResult) {
  constexpr int64_t kTracedSteps = 6;
  constexpr int kMicroBatches = 3;
  const MemoryDataset data = small_data(50);
  const FixtureConfig config{.batch_size = 16, .lr = 0.1, .step = {.micro_batches = kMicroBatches}};
  const Result expected = train_world(1, config, small_network(), data, kTracedSteps);
  on_gpus(GetParam(), [&](Communicator& c, Device& device, Ops& ops) {
    RecordedSpans spans;
    FixtureConfig traced = config;
    traced.spans = &spans;
    Fixture fixture(traced, small_network(), data, device, ops, c);
    EXPECT_LE(loss_distance(fixture.losses(0, kTracedSteps), expected.losses), 1e-5);
    const auto forward = spans.named("forward"), backward = spans.named("backward");
    ASSERT_EQ(std::ssize(forward), kTracedSteps * kMicroBatches);
    ASSERT_EQ(forward.size(), backward.size());
    int64_t ordered = 0;
    for (size_t i = 0; i < forward.size(); ++i)
      ordered += forward[i].number == backward[i].number && forward[i].begin_ns <= forward[i].end_ns &&
                 forward[i].end_ns <= backward[i].begin_ns && backward[i].begin_ns <= backward[i].end_ns;
    EXPECT_EQ(ordered, kTracedSteps * kMicroBatches);
    const auto buckets = spans.of(Track::buckets);
    EXPECT_EQ(std::ssize(buckets), kTracedSteps * fixture.replica.reducer.collectives());
    EXPECT_TRUE(std::ranges::all_of(buckets, [](const Span& bucket) { return bucket.begin_ns <= bucket.end_ns; }));
    c.barrier();
  });
}

TEST_P(EmulatedTraining, NanEndsTheRunOnEveryRank) {
  std::vector<std::string> messages(GetParam().size);
  on_gpus(GetParam(),
          [&](Communicator& c, Device& device, Ops& ops) { messages[c.rank()] = train_from_a_nan(c, device, ops); });
  expect_one_message_about_step_1(messages);
}

// The graphs contain the casts of the gradients to bf16 and back.
TEST_P(EmulatedTraining, Bf16GradientsGiveNearlyTheSameLosses) {
  const GpuWorld& world = GetParam();
  const MemoryDataset data = small_data(50);
  for (const bool zero : {false, true}) {
    FixtureConfig config{.batch_size = 16, .lr = 0.1, .replica = {.zero = zero}};
    const Result expected = train_world(1, config, small_network(), data, 12);
    config.replica.grad_dtype = DType::bf16;
    on_gpus(world, [&](Communicator& c, Device& device, Ops& ops) {
      const double d =
          loss_distance(Fixture(config, small_network(), data, device, ops, c).losses(0, 12), expected.losses);
      EXPECT_LE(d, 5e-3) << (zero ? "sharded" : "whole");
      EXPECT_GT(d, 1e-7) << "nothing was rounded";
    });
  }
}

// A replay of step 9 would not call the reducer's hook, so the injection must prevent it.
TEST_P(EmulatedTraining, ErrorNamesRankAndBucketOfAnInjectedNan) {
  const MemoryDataset data = small_data(64);
  const int rank = GetParam().size - 1;
  std::vector<std::string> messages(GetParam().size);
  on_gpus(GetParam(), [&](Communicator& c, Device& device, Ops& ops) {
    Fixture fixture({.batch_size = 16}, small_network(), data, device, ops, c);
    DeviceDataset on_device(device, data, fixture.largest(), {.device_bytes = size_t{1} << 30});
    Prefetcher prefetcher(on_device, fixture.sampler(), 0, 12, kTrainingFences);
    const NextBatch next = with_fault({.rank = rank, .step = 9, .kind = FaultInjection::Kind::nan}, fixture.replica, 0,
                                      [&]() -> const DeviceBatch& { return prefetcher.next(); });
    Step step(fixture.replica);
    try {
      for (int k = 0; k < 12; ++k) step.run(next, 0.01);
    } catch (const CollectiveError& e) {
      messages[c.rank()] = e.what();
    }
  });
  for (const std::string& message : messages)
    EXPECT_NE(message.find(fmt::format("at step 9 on rank {}: a gradient of bucket 0", rank)), std::string::npos)
        << message;
}

TEST_P(EmulatedTraining, EvaluationCountsEverySampleOnce) {
  const MemoryDataset data = small_data(50);
  const auto evaluate = [&](Communicator& c, Device& device, Ops& ops) {
    Fixture fixture({.batch_size = 16, .order = Order::sequential}, small_network(), data, device, ops, c);
    DeviceDataset on_device(device, data, fixture.largest(),
                            {.device_bytes = GetParam().resident ? size_t{1} << 30 : 0});
    Evaluator evaluator(fixture.replica, on_device, fixture.sampler());
    const Evaluation first = evaluate_all(evaluator), second = evaluate_all(evaluator), third = evaluate_all(evaluator);
    EXPECT_EQ(first.correct, second.correct);
    EXPECT_EQ(first.loss, third.loss);
    return first;
  };
  Evaluation expected, actual;
  run_world(1, [&](Communicator& c, Device& device, Ops& ops) { expected = evaluate(c, device, ops); });
  on_gpus(GetParam(), [&](Communicator& c, Device& device, Ops& ops) {
    const Evaluation mine = evaluate(c, device, ops);
    if (c.rank() == 0) actual = mine;
  });
  EXPECT_EQ(actual.samples, 50);
  EXPECT_EQ(actual.correct, expected.correct);
  EXPECT_NEAR(actual.loss, expected.loss, 1e-5 * expected.loss);
}

// Planted fault: one bucket is not reduced.
class ManyRanks : public EmulatedTraining {};

TEST_P(ManyRanks, CatchAnUnreducedBucket) {
  const MemoryDataset data = small_data(50);
  const FixtureConfig config{.batch_size = 16, .lr = 0.1};
  const Result expected = train_world(1, config, small_network(), data, 6);
  double worst = 0;
  on_gpus(GetParam(), [&](Communicator& c, Device& device, Ops& ops) {
    int sums = 0;
    FaultyCommunicator faulty(c, [&](DeviceSpan) { return sums++ % 3 != 1; });
    Fixture fixture(config, small_network(), data, device, ops, faulty);
    const auto losses = fixture.losses(0, 6);
    if (c.rank() == 0) worst = loss_distance(losses, expected.losses);
  });
  EXPECT_GT(worst, 1e-5);
}

// Planted fault: the compute stream does not wait for the buckets. At least one order of the streams shows it.
class NoWaitCommunicator final : public FaultyCommunicator {
 public:
  explicit NoWaitCommunicator(Communicator& inner) : FaultyCommunicator(inner, [](DeviceSpan) { return true; }) {}
  void wait(Sequence) override {}
};

// The ranks then see different sums, so one rank may stop while the other continues; the first error ends both.
TEST(EmulatedStreams, CatchAMissingWait) {
  const GpuWorld world{"nccl_2_no_graph", 2, true, false, true};
  const MemoryDataset data = small_data(50);
  const FixtureConfig config{.batch_size = 16, .lr = 0.1};
  const Result expected = train_world(1, config, small_network(), data, 6);
  std::atomic<bool> caught = false;
  for (uint64_t seed = 0; seed < 20 && !caught; ++seed) {
    emulator::set_seed(seed);
    on_gpus(world, [&](Communicator& c, Device& device, Ops& ops) {
      NoWaitCommunicator no_wait(c);
      try {
        Fixture fixture(config, small_network(), data, device, ops, no_wait);
        const auto losses = fixture.losses(0, 6);
        if (c.rank() == 0 && loss_distance(losses, expected.losses) > 1e-5) caught = true;
      } catch (const Error&) {
        caught = true;
        fake_nccl::fail_rank(c.rank(), ncclInternalError);
      }
    });
    fake_nccl::reset();
  }
  EXPECT_TRUE(caught);
}

// The emulator runs nothing until the host waits, so the completed work shows whether the host waited.
TEST(EmulatedStreams, HostRunsTwoStepsAheadOfTheDevice) {
  const MemoryDataset data = small_data(200);
  for (const bool graphs : {true, false})
    on_gpus({"nccl_1", 1, true, graphs, true}, [&](Communicator& c, Device& device, Ops& ops) {
      Fixture fixture({.batch_size = 16}, small_network(), data, device, ops, c);
      DeviceDataset on_device(device, data, fixture.largest(), {.device_bytes = size_t{1} << 30});
      Prefetcher prefetcher(on_device, fixture.sampler(), 0, 12, kTrainingFences);
      Step step(fixture.replica);
      const NextBatch next = [&]() -> const DeviceBatch& { return prefetcher.next(); };
      for (int k = 0; k < 12; k += 2) {
        device.synchronize();
        const auto before = c.completed();
        step.run(next, 0.1);
        step.run(next, 0.1);
        EXPECT_EQ(c.completed(), before) << "steps " << k + 1 << " and " << k + 2;
      }
    });
}

const GpuWorld kWorlds[] = {{"nccl_1", 1, true, true, true},
                            {"staged_1", 1, false, true, true},
                            {"nccl_2", 2, true, true, true},
                            {"nccl_3", 3, true, true, true},
                            {"nccl_4_streamed", 4, true, true, false},
                            {"nccl_2_no_graph", 2, true, false, true},
                            {"nccl_3_no_graph_streamed", 3, true, false, false},
                            {"staged_3", 3, false, true, true},
                            {"staged_4_streamed", 4, false, true, false}};
std::string name_of(const ::testing::TestParamInfo<GpuWorld>& tested) { return tested.param.name; }

INSTANTIATE_TEST_SUITE_P(, EmulatedTraining, ::testing::ValuesIn(kWorlds), name_of);
INSTANTIATE_TEST_SUITE_P(, ManyRanks, ::testing::ValuesIn(kWorlds + 2, std::end(kWorlds)), name_of);

}  // namespace
}  // namespace ddp::testing
