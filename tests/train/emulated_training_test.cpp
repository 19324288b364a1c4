// Training on emulated GPUs gives the losses and weights of one rank on the CPU: with and without graphs, over the
// emulated NCCL and staged through the host, with resident and with streamed data. The emulator runs kernels compiled
// for the CPU, and streams in any order that events allow.
//
// The third step of a size is the first replay of its graph.
#include "tests/emulator/seeds.h"
#include "tests/spans.h"
#include "tests/train/dense_network.h"
#include "tests/train/emulated_world.h"
#include "tests/train/frozen_networks.h"
#include "tests/train/joined_network.h"
#include "tests/train/small.h"
#include "tests/train/token_network.h"
#include "tests/train/trained.h"
#include "tests/values.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

namespace ddp::testing {
namespace {

using emulator::for_each_seed;

constexpr GpuWorld kNccl1{"nccl_1", 1, true, true, true};
constexpr GpuWorld kStaged1{"staged_1", 1, false, true, true};
constexpr GpuWorld kNccl2{"nccl_2", 2, true, true, true};
constexpr GpuWorld kNccl2NoGraph{"nccl_2_no_graph", 2, true, false, true};
constexpr GpuWorld kNccl2Streamed{"nccl_2_streamed", 2, true, true, false};
constexpr GpuWorld kNccl3{"nccl_3", 3, true, true, true};
constexpr GpuWorld kNccl3NoGraphStreamed{"nccl_3_no_graph_streamed", 3, true, false, false};
constexpr GpuWorld kNccl4Streamed{"nccl_4_streamed", 4, true, true, false};
constexpr GpuWorld kStaged2Streamed{"staged_2_streamed", 2, false, true, false};
constexpr GpuWorld kStaged3{"staged_3", 3, false, true, true};

const auto name_of = [](const auto& tested) { return tested.param.name; };

class EmulatedTraining : public ::testing::TestWithParam<GpuWorld> {};
INSTANTIATE_TEST_SUITE_P(, EmulatedTraining,
                         ::testing::Values(kNccl1, kStaged1, kNccl2, kNccl3NoGraphStreamed, kNccl4Streamed, kStaged3),
                         name_of);

// A short last batch; empty shards.
TEST_P(EmulatedTraining, MatchesOneRankOnTheCpu) {
  const GpuWorld& world = GetParam();
  for (const auto& [samples, steps] : {std::pair<int64_t, int64_t>{kSamples, 7}, {3, 4}}) {
    const MemoryDataset data = small_data(samples);
    const FixtureConfig config{.batch_size = kBatch, .lr = 0.1, .device_data_bytes = world.device_data_bytes()};
    const Trained expected = trained_on_cpus(1, config, small_network(), data, steps);
    for_each_seed([&, &steps = steps] {
      expect_near(trained_on_gpus(world, config, small_network(), data, steps), expected, {1e-5, 1e-4});
    });
  }
}

TEST_P(EmulatedTraining, EvaluationCountsEverySampleOnce) {
  const MemoryDataset data = small_data(kSamples);
  const auto evaluate = [&](Communicator& c, Device& device, Ops& ops) {
    Fixture fixture({.batch_size = kBatch, .order = Order::sequential}, small_network(), data, device, ops, c);
    DeviceDataset on_device(device, data, fixture.largest(), {.device_bytes = GetParam().device_data_bytes()});
    Evaluator evaluator(fixture.replica, on_device, fixture.sampler());
    const Evaluation first = evaluate_all(evaluator), second = evaluate_all(evaluator), third = evaluate_all(evaluator);
    EXPECT_EQ(first.correct, second.correct);
    EXPECT_EQ(first.loss, third.loss);
    return first;
  };
  Evaluation expected;
  run_world(1, [&](Communicator& c, Device& device, Ops& ops) { expected = evaluate(c, device, ops); });
  for_each_seed([&] {
    on_gpus(GetParam(), [&](Communicator& c, Device& device, Ops& ops) {
      const Evaluation actual = evaluate(c, device, ops);
      EXPECT_EQ(actual.samples, kSamples);
      EXPECT_EQ(actual.correct, expected.correct);
      EXPECT_NEAR(actual.loss, expected.loss, 1e-5 * expected.loss);
    });
  });
}

class EmulatedTrace : public EmulatedTraining {};
INSTANTIATE_TEST_SUITE_P(, EmulatedTrace, ::testing::Values(kNccl2, kStaged2Streamed), name_of);

// Replayed graphs write the timestamps of their capture.
TEST_P(EmulatedTrace, HasEachStepOnceAndChangesNoResult) {
  constexpr int64_t kTracedSteps = 5;
  constexpr int kMicroBatches = 2;
  const MemoryDataset data = small_data(kSamples);
  const FixtureConfig config{.batch_size = kBatch, .lr = 0.1, .step = {.micro_batches = kMicroBatches}};
  const Trained expected = trained_on_cpus(1, config, small_network(), data, kTracedSteps);
  for_each_seed([&] {
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
  });
}

// Synchronized batch norm, dropout, augmentation and an optimizer, in a few worlds each.
struct Variant {
  const char* name;
  GpuWorld world;
  OptimizerDesc optimizer = {.momentum = 0.9f, .weight_decay = 1e-3f};
  bool zero = false;
  double max_grad_norm = 0;
  int micro_batches = 1;
  int64_t samples = kSamples;  // 3 gives empty shards
  Network network = two_norms();
  MixConfig mix = {};
  std::vector<float> class_weights = {};

  FixtureConfig config() const {
    return {.batch_size = kBatch,
            .lr = 0.02,
            .replica = {.optimizer = optimizer,
                        .max_grad_norm = max_grad_norm,
                        .zero = zero,
                        .sync_bn = true,
                        .mix = mix,
                        .class_weights = class_weights,
                        .seed = 3,
                        .augmentation = {.alternate_flip = true, .crop_padding = 2, .erase = mix.any() ? 0.5f : 0}},
            .step = {.micro_batches = micro_batches},
            .device_data_bytes = world.device_data_bytes()};
  }
};

void PrintTo(const Variant& variant, std::ostream* out) { *out << variant.name; }

constexpr OptimizerDesc kLars{.kind = OptimizerDesc::Kind::lars, .momentum = 0.9f, .weight_decay = 1e-2f};

const Variant kNorms[] = {
    {.name = "nccl_2", .world = kNccl2},
    {.name = "nccl_3_no_graph_streamed", .world = kNccl3NoGraphStreamed},
    {.name = "staged_3", .world = kStaged3},
    {.name = "empty_shards", .world = kNccl4Streamed, .samples = 3},
    {.name = "residual_sums", .world = kNccl2, .network = norm_network()},
    {.name = "joined_values", .world = kNccl2, .network = joined_network()},
    {.name = "dense_layers", .world = kNccl2, .network = dense_network()},
    {.name = "frozen_beginning", .world = kNccl2, .network = frozen_network(kFrozenParts[0])},
    {.name = "frozen_norms", .world = kNccl3NoGraphStreamed, .network = frozen_network(kFrozenParts[1])},
    {.name = "frozen_tensors", .world = kNccl4Streamed, .samples = 3, .network = frozen_network(kFrozenParts[3])},
    {.name = "frozen_before_a_pool",
     .world = kNccl2,
     .network = freeze(two_pools(), std::vector<std::string>{"0.weight", "3.bias"})},
    {.name = "frozen_between_pools",
     .world = kNccl2,
     .network = freeze(two_pools(), std::vector<std::string>{"0.bias", "3", "7.weight"})}};
const Variant kMicroBatches[] = {
    {.name = "nccl_3", .world = kNccl3, .micro_batches = 3},
    {.name = "staged_2_streamed", .world = kStaged2Streamed, .micro_batches = 2},
    {.name = "frozen", .world = kNccl3, .micro_batches = 3, .network = frozen_network(kFrozenParts[2])}};
const Variant kOptimizers[] = {{.name = "adam", .world = kNccl2Streamed, .optimizer = kAdam},
                               {.name = "lars", .world = kNccl2, .optimizer = kLars}};
const Variant kPartitions[] = {{.name = "momentum_clipped", .world = kNccl3, .zero = true, .max_grad_norm = 0.7},
                               {.name = "staged", .world = kStaged2Streamed, .zero = true, .max_grad_norm = 0.7},
                               {.name = "adam_no_graph", .world = kNccl2NoGraph, .optimizer = kAdam, .zero = true},
                               {.name = "frozen",
                                .world = kNccl3,
                                .zero = true,
                                .max_grad_norm = 0.7,
                                .network = frozen_network(kFrozenParts[0])}};

const Variant kMixes[] = {
    {.name = "both", .world = kNccl2, .mix = {0.4, 1}},
    {.name = "streamed", .world = kStaged2Streamed, .micro_batches = 2, .mix = {.cutmix_alpha = 1}},
    {.name = "empty_shards", .world = kNccl4Streamed, .samples = 3, .mix = {.mixup_alpha = 1}},
    {.name = "weights", .world = kNccl3, .max_grad_norm = 0.7, .micro_batches = 2, .class_weights = {0.5f, 2, 4, 1}}};

class EmulatedVariants : public ::testing::TestWithParam<Variant> {
 protected:
  // The fifth step is in another epoch.
  static constexpr int64_t kSteps = 5;
  static void expect_match() {
    const Variant& variant = GetParam();
    const MemoryDataset data = small_data(variant.samples);
    FixtureConfig alone = variant.config();
    alone.replica.zero = false;
    const Trained expected = trained_on_cpus(1, alone, variant.network, data, kSteps);
    for_each_seed([&] {
      expect_near(trained_on_gpus(variant.world, variant.config(), variant.network, data, kSteps), expected,
                  {2e-5, 1e-3});
    });
  }
};

class EmulatedNorms : public EmulatedVariants {};
TEST_P(EmulatedNorms, MatchOneRankOnTheCpu) { expect_match(); }
INSTANTIATE_TEST_SUITE_P(, EmulatedNorms, ::testing::ValuesIn(kNorms), name_of);

class EmulatedMicroBatches : public EmulatedVariants {};
TEST_P(EmulatedMicroBatches, MatchOneRankOnTheCpu) { expect_match(); }
INSTANTIATE_TEST_SUITE_P(, EmulatedMicroBatches, ::testing::ValuesIn(kMicroBatches), name_of);

class EmulatedMixes : public EmulatedVariants {};
TEST_P(EmulatedMixes, MatchOneRankOnTheCpu) { expect_match(); }
INSTANTIATE_TEST_SUITE_P(, EmulatedMixes, ::testing::ValuesIn(kMixes), name_of);

class EmulatedOptimizers : public EmulatedVariants {};
TEST_P(EmulatedOptimizers, MatchOneRankOnTheCpu) { expect_match(); }
INSTANTIATE_TEST_SUITE_P(, EmulatedOptimizers, ::testing::ValuesIn(kOptimizers), name_of);

class EmulatedPartitions : public EmulatedVariants {};
TEST_P(EmulatedPartitions, MatchOneRankOnTheCpu) { expect_match(); }
INSTANTIATE_TEST_SUITE_P(, EmulatedPartitions, ::testing::ValuesIn(kPartitions), name_of);

// The graphs contain the casts of the gradients to bf16 and back. As many ranks on the CPU round the same numbers.
class EmulatedBf16Gradients : public EmulatedVariants {};
TEST_P(EmulatedBf16Gradients, MatchRanksOnTheCpu) {
  const Variant& variant = GetParam();
  const MemoryDataset data = small_data(kSamples);
  FixtureConfig config = variant.config();
  const Trained f32 = trained_on_cpus(variant.world.size, config, variant.network, data, kSteps);
  config.replica.grad_dtype = GradDType::bf16;
  const Trained expected = trained_on_cpus(variant.world.size, config, variant.network, data, kSteps);
  EXPECT_GT(distance(expected.change, f32.change), 1e-3) << "nothing was rounded";
  for_each_seed([&] {
    expect_near(trained_on_gpus(variant.world, config, variant.network, data, kSteps), expected, {1e-4, 1e-3});
  });
}
const Variant kBf16Gradients[] = {{.name = "nccl_2_no_graph", .world = kNccl2NoGraph},
                                  {.name = "staged_2_streamed", .world = kStaged2Streamed},
                                  {.name = "partitions", .world = kNccl2, .zero = true}};
INSTANTIATE_TEST_SUITE_P(, EmulatedBf16Gradients, ::testing::ValuesIn(kBf16Gradients), name_of);

// A tied head, and weights that the first layer reads.
constexpr int64_t kTokenSamples = 14;  // a whole batch and a short one

FixtureConfig token_config() {
  return {.batch_size = kBatch,
          .lr = 0.05,
          .replica = {.optimizer = {.momentum = 0.9f}, .seed = 3},
          .device_data_bytes = kNccl2Streamed.device_data_bytes()};
}

TEST(EmulatedTokens, MatchOneRankOnTheCpu) {
  const TokenWindows data(kTokenSamples);
  const Trained expected = trained_on_cpus(1, token_config(), token_network(), data, 5);
  for_each_seed([&] {
    expect_near(trained_on_gpus(kNccl2Streamed, token_config(), token_network(), data, 5), expected, {2e-5, 1e-3});
  });
}

TEST(EmulatedTokens, InBf16AreNearF32) {
  const TokenWindows data(kTokenSamples);
  const Trained f32 = trained_on_cpus(1, token_config(), token_network(), data, 5);
  GpuWorld world = kNccl2Streamed;
  world.precision = Precision::bf16;
  const Trained bf16 = trained_on_gpus(world, token_config(), token_network(), data, 5);
  expect_near(bf16, f32, {2e-2, 0.15});
  EXPECT_GT(distance(bf16.change, f32.change), 1e-3) << "nothing was rounded";
}

Network frozen_two_norms() { return freeze(two_norms(), std::vector<std::string>{"3.weight", "4"}); }

// The ops read the weights that the optimizer rounds or, where its state is sharded, those that the ranks gather.
// Gradients that are left in bf16 become f32 once, on ranks that have samples.
struct Bf16Case {
  const char* name;
  int world;
  bool zero;
  int micro_batches;
  int64_t samples;
  bool nccl = true;
  GradDType grad_dtype = GradDType::fp32;
  Network network = two_norms();
};
void PrintTo(const Bf16Case& tested, std::ostream* out) { *out << tested.name; }

class EmulatedBf16 : public ::testing::TestWithParam<Bf16Case> {};
TEST_P(EmulatedBf16, IsNearF32AndRoundsTheWeightsOfEachStep) {
  const auto& [name, world, zero, micro_batches, samples, nccl, grad_dtype, network] = GetParam();
  const MemoryDataset data = small_data(samples);
  const FixtureConfig config{.batch_size = kBatch,
                             .lr = 0.1,
                             .replica = {.zero = zero, .grad_dtype = grad_dtype, .sync_bn = true, .seed = 3},
                             .step = {.micro_batches = micro_batches}};
  const Trained f32 = trained_on_cpus(world, config, network, data, 5);
  on_gpus({name, world, nccl, true, true, Precision::bf16}, [&](Communicator& c, Device& device, Ops& ops) {
    Fixture fixture(config, network, data, device, ops, c);
    expect_near(train_steps(fixture, 0, 5), f32, {2e-2, 0.15});
    std::vector<float> weights = fixture.replica.download_weights();
    weights.resize(flat_count(fixture.replica.parameters));
    std::vector<uint16_t> rounded(weights.size());
    device.download(rounded.data(), fixture.replica.model.bf16_weights(), rounded.size() * sizeof(uint16_t));
    device.synchronize();
    EXPECT_EQ(rounded, bf16_of(weights));
  });
}
INSTANTIATE_TEST_SUITE_P(
    , EmulatedBf16,
    ::testing::Values(Bf16Case{"one_rank", 1, false, 1, kSamples},
                      Bf16Case{"one_rank_staged", 1, false, 3, kSamples, false},
                      Bf16Case{"one_rank_casting", 1, false, 1, kSamples, true, GradDType::bf16},
                      Bf16Case{"two_ranks", 2, false, 1, kSamples}, Bf16Case{"micro_batches", 2, false, 3, kSamples},
                      Bf16Case{"empty_shards", 4, false, 1, 3}, Bf16Case{"partitions", 2, true, 1, kSamples},
                      Bf16Case{"frozen", 2, false, 3, kSamples, true, GradDType::fp32, frozen_two_norms()},
                      Bf16Case{"frozen_partitions", 2, true, 1, kSamples, true, GradDType::fp32, frozen_two_norms()}),
    [](const auto& tested) { return tested.param.name; });

// The emulator runs nothing until the host waits, so the completed work shows whether the host waited.
TEST(EmulatedStreams, HostRunsTwoStepsAheadOfTheDevice) {
  const MemoryDataset data = small_data(104);
  for (const bool graphs : {true, false})
    on_gpus({"nccl_1", 1, true, graphs, true}, [&](Communicator& c, Device& device, Ops& ops) {
      Fixture fixture({.batch_size = kBatch}, small_network(), data, device, ops, c);
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

}  // namespace
}  // namespace ddp::testing
