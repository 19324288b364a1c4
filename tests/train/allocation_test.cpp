// Law 5: the step does not allocate. Counts the heap allocations of the rank's own thread, in steps of several
// networks.
#include "comm/local/heartbeat_table.h"
#include "device/cpu/device.h"
#include "nn/models.h"
#include "ops/cpu/ops.h"
#include "tests/heap.h"
#include "tests/train/fixture.h"
#include "tests/train/small.h"

#include <gtest/gtest.h>

namespace ddp::testing {
namespace {

// A world of one rank. Its collectives complete at once.
class Alone final : public Communicator {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  Sequence all_reduce(DeviceSpan) override { return ++done_; }
  Sequence reduce_scatter(DeviceSpan) override { return ++done_; }
  Sequence all_gather(DeviceSpan) override { return ++done_; }
  Sequence broadcast(DeviceSpan, int) override { return ++done_; }
  void wait(Sequence) override {}
  void progress() override {}
  Sequence completed() const override { return done_; }
  void all_reduce_host(std::span<double>) override {}
  void barrier() override {}
  std::unique_ptr<Communicator> split(int) override { return std::make_unique<Alone>(); }

 private:
  Sequence done_ = 0;
};

int64_t allocations_of(const std::function<void()>& work) {
  const int64_t before = allocations();
  work();
  return allocations() - before;
}

struct Case {
  const char* name;
  Network network;
  ImageShape image;
  ReplicaConfig replica;
  int micro_batches;
};

void PrintTo(const Case& tested, std::ostream* out) { *out << tested.name; }

std::vector<Case> cases() {
  const ReplicaConfig everything{.optimizer = {.kind = OptimizerDesc::Kind::adam, .weight_decay = 0.01f},
                                 .max_grad_norm = 1,
                                 .zero = true,
                                 .grad_dtype = GradDType::bf16,
                                 .averages = true,
                                 .sync_bn = true,
                                 .label_smoothing = 0.1f,
                                 .mix = {0.2, 1},
                                 .augmentation = {.crop_padding = 1, .erase = 0.5f}};
  const ReplicaConfig lars{.optimizer = {.kind = OptimizerDesc::Kind::lars, .momentum = 0.9f},
                           .sync_bn = true,
                           .class_weights = std::vector<float>(10, 2.0f)};
  const ImageShape grey{28, 28, 1};
  return {{"lenet", make_model("lenet", grey, 4), grey, {}, 1},
          {"keras_convnet", make_model("keras-convnet", grey, 4), grey, everything, 2},
          {"residual", norm_network(), {8, 8, 2}, lars, 1}};
}

class AStep : public ::testing::TestWithParam<Case> {};

class CountedSpans final : public SpanRecorder {
 public:
  bool on() const noexcept override { return true; }
  void record(const Span&) noexcept override { ++count; }
  int64_t count = 0;
};

void expect_no_allocation(const Case& tested, SpanRecorder* spans) {
  const MemoryDataset data = small_data(150, tested.image);
  const auto device = make_cpu_device();
  const auto ops = make_cpu_ops(*device, {});
  Alone alone;
  const StepConfig config{.micro_batches = tested.micro_batches};
  Fixture fixture({.batch_size = 32, .replica = tested.replica, .step = config}, tested.network, data, *device, *ops,
                  alone);
  const Replica& replica = fixture.replica;
  DeviceDataset on_device(*device, data, fixture.largest(),
                          {.mix = replica.batch_mix(), .class_weights = replica.class_weights});
  Prefetcher prefetcher(on_device, fixture.sampler(), 0, 16, kTrainingFences);
  const auto tables = make_local_heartbeat_tables(1);
  PhaseTracker phases(*tables[0]);
  const PhaseTracker::Recording recording(phases, spans);
  Step step(fixture.replica, config, &phases, spans);
  const NextBatch next = [&]() -> const DeviceBatch& { return prefetcher.next(); };
  for (int i = 0; i < 16; ++i) {  // short batches and new epochs among them
    const int64_t taken =
        allocations_of([&] { step.run(next, 0.001, fixture.replica.average ? Fixture::kAverageRate : 0); });
    if (i >= 5) {
      EXPECT_EQ(taken, 0) << "in step " << i;
    }
  }
}

TEST_P(AStep, DoesNotAllocate) { expect_no_allocation(GetParam(), nullptr); }

TEST_P(AStep, DoesNotAllocateWithATrace) {
  CountedSpans spans;
  expect_no_allocation(GetParam(), &spans);
  EXPECT_GT(spans.count, 100);
}

INSTANTIATE_TEST_SUITE_P(, AStep, ::testing::ValuesIn(cases()),
                         [](const auto& tested) { return std::string(tested.param.name); });

TEST(Step, TestDetectsAnAllocation) {
  EXPECT_EQ(allocations_of([] { std::vector<int>(3).front() = 1; }), 1);
}

}  // namespace
}  // namespace ddp::testing
