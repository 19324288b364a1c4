// How many kernels, calls of cuDNN and cuBLASLt, and copies a training step issues on a GPU of its own. Nothing
// computes, so the shapes are real: batch 256 on 28 x 28 pixels.
#include "data/memory_dataset.h"
#include "nn/models.h"
#include "tests/train/emulated_world.h"
#include "tests/train/fixture.h"
#include "tests/train/small.h"
#include "train/observers/plan_report.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

namespace ddp::testing {
namespace {

struct LaunchCase {
  const char *name, *model;
  Precision precision;
  int64_t kernels, library_calls, copies;
};

void PrintTo(const LaunchCase& tested, std::ostream* out) { *out << tested.name; }

const LaunchCase kLaunchCases[] = {{"lenet_tf32", "lenet", Precision::tf32, 13, 11, 2},
                                   {"lenet_bf16", "lenet", Precision::bf16, 13, 11, 2},
                                   {"resnet18_bf16", "resnet18", Precision::bf16, 83, 62, 2}};

class EmulatedLaunches : public ::testing::TestWithParam<LaunchCase> {
 protected:
  void SetUp() override { emulator::compute(false); }
  void TearDown() override { emulator::compute(true); }
};

// Of the last step, after the first ones have made plans.
TEST_P(EmulatedLaunches, OfAStep) {
  constexpr int64_t kBatch = 256;
  const LaunchCase& expected = GetParam();
  const Network network = make_model(expected.model, {28, 28, 1}, 10);
  const MemoryDataset data({28, 28, 1}, 10, std::vector<uint8_t>(kBatch * 784), std::vector<uint8_t>(kBatch));
  const auto host = std::move(make_local_communicators(1)[0]);
  const auto device = make_cuda_device({.graphs = false});
  const auto ops = make_cuda_ops(*device, {.precision = expected.precision});
  const auto communicator = make_nccl_communicator(*device, *host, {});
  Fixture fixture({.batch_size = kBatch}, network, data, *device, *ops, *communicator);
  const auto issued = [&](int64_t steps) {
    const emulator::Issued before = emulator::issued();
    fixture.losses(0, steps);
    const emulator::Issued after = emulator::issued();
    return emulator::Issued{.kernels = after.kernels - before.kernels,
                            .library_calls = after.library_calls - before.library_calls,
                            .copies = after.copies - before.copies};
  };
  const emulator::Issued two = issued(2), three = issued(3);
  EXPECT_EQ(three.kernels - two.kernels, expected.kernels);
  EXPECT_EQ(three.library_calls - two.library_calls, expected.library_calls);
  EXPECT_EQ(three.copies - two.copies, expected.copies);
}

TEST(EmulatedReplicas, CheckIsTwoKernelsAndNoneForOneRank) {
  for (const int size : {1, 2}) {
    on_gpus({"ranks", size, true, true, true}, [&](Communicator& c, Device& device, Ops& ops) {
      const MemoryDataset data = small_data(16);
      const Fixture fixture({.batch_size = 16}, norm_network(), data, device, ops, c);
      const auto issued_by_all = [&] {
        c.barrier();
        const int64_t kernels = emulator::issued().kernels;
        c.barrier();
        return kernels;
      };
      const int64_t before = issued_by_all();
      fixture.replica.check_replicas();
      EXPECT_EQ(issued_by_all() - before, size == 1 ? 0 : 2 * size);
    });
  }
}

INSTANTIATE_TEST_SUITE_P(, EmulatedLaunches, ::testing::ValuesIn(kLaunchCases),
                         [](const auto& tested) { return tested.param.name; });

// KiB that --plan prints.
TEST(EmulatedPlan, CountsTheCopiesInBf16) {
  const auto memory = [](Precision precision) {
    std::array<float, 2> of{};
    on_gpus({.name = "one", .size = 1, .nccl = true, .graphs = true, .resident = true, .precision = precision},
            [&](Communicator& c, Device& device, Ops& ops) {
              const MemoryDataset data = small_data(16);
              Fixture fixture({.batch_size = 16}, small_network(), data, device, ops, c);
              const std::string text = plan_report(fixture.replica, data, fixture.sampler());
              const size_t at = text.find("memory of a rank");
              ASSERT_NE(at, text.npos);
              EXPECT_EQ(
                  std::sscanf(text.c_str() + at, "memory of a rank: weights %f KiB, gradients %f", &of[0], &of[1]), 2);
            });
    return of;
  };
  const auto [weights, gradients] = memory(Precision::fp32);
  const auto [weights_bf16, gradients_bf16] = memory(Precision::bf16);
  EXPECT_GT(weights, 0);
  EXPECT_NEAR(weights_bf16, 1.5f * weights, 0.2f);
  EXPECT_NEAR(gradients_bf16, gradients + 0.5f * weights, 0.2f);
}

}  // namespace
}  // namespace ddp::testing
