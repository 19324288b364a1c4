// A rank on each instruction set. The gradients of a rank round in its own way; everything after their sum, which each
// rank computes for itself, has the same bits on every set.
#include "device/cpu/device.h"
#include "nn/models.h"
#include "ops/cpu/ops.h"
#include "tests/comm/ranks.h"
#include "tests/train/fixture.h"
#include "tests/train/small.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace ddp::testing {
namespace {

constexpr InstructionSet kSets[] = {InstructionSet::v4, InstructionSet::base, InstructionSet::v3};

// The weights of rank 0 after some steps; all ranks have the same, or this throws.
std::vector<float> trained(const ReplicaConfig& replica, bool unlike) {
  const ImageShape image{28, 28, 1};
  const MemoryDataset data = small_data(90, image);
  std::vector<float> weights;
  run_ranks(3, [&](Communicator& communicator) {
    const auto device = make_cpu_device();
    const InstructionSet set = unlike ? kSets[communicator.rank()] : InstructionSet::base;
    const auto ops = make_cpu_ops(*device, {.instruction_set = std::min(set, best_instruction_set())});
    Fixture fixture({.batch_size = 24, .lr = 0.01, .replica = replica}, make_model("keras-convnet", image, 4), data,
                    *device, *ops, communicator);
    for (int64_t step = 0; step < 6; ++step) {
      fixture.losses(step, step + 1);
      fixture.replica.check_replicas();
    }
    if (communicator.rank() == 0) weights = dense_weights(fixture.replica);
  });
  return weights;
}

TEST(InstructionSets, KeepReplicasEqual) {
  using enum OptimizerDesc::Kind;
  const ReplicaConfig configs[] = {
      {.optimizer = {.momentum = 0.9f, .weight_decay = 0.01f}, .max_grad_norm = 0.1, .sync_bn = true},
      {.optimizer = {.kind = lars, .momentum = 0.9f, .weight_decay = 0.01f}, .sync_bn = true},
      {.optimizer = {.kind = adam}, .max_grad_norm = 0.1, .zero = true, .grad_dtype = GradDType::bf16}};
  for (const ReplicaConfig& config : configs) {
    SCOPED_TRACE(static_cast<int>(config.optimizer.kind));
    const std::vector<float> unlike = trained(config, true), alike = trained(config, false);
    if (best_instruction_set() > InstructionSet::base) {
      EXPECT_NE(unlike, alike);  // the sets round in different ways
    }
  }
}

}  // namespace
}  // namespace ddp::testing
