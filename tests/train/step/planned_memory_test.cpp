// A replica that is planned in address space takes, by the plan, what a real one allocates.
#include "comm/local/communicator.h"
#include "device/cpu/device.h"
#include "device/host_memory.h"
#include "device/planning_memory.h"
#include "nn/models.h"
#include "ops/cpu/ops.h"
#include "train/step/replica.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

namespace ddp {
namespace {

class CountingMemory final : public Memory {
 public:
  void* allocate(size_t bytes) override {
    void* const memory = memory_.allocate(bytes);
    live_ += static_cast<int64_t>(blocks_[memory] = std::max<size_t>(bytes, 1));
    peak = std::max(peak, live_);
    return memory;
  }
  void deallocate(void* memory) noexcept override {
    live_ -= static_cast<int64_t>(blocks_.at(memory));
    blocks_.erase(memory);
    memory_.deallocate(memory);
  }
  int64_t peak = 0;

 private:
  HostMemory memory_;
  std::map<void*, size_t> blocks_;
  int64_t live_ = 0;
};

// Returns the bytes of the activations.
int64_t build(Memory& memory, const Network& network, ReplicaConfig config) {
  const auto device = make_cpu_device(memory);
  const auto ops = make_cpu_ops(*device, {.threads = 2});
  const auto alone = std::move(make_local_communicators(1).front());
  config.optimizer.momentum = 0.9f;
  const Replica replica(network, config, *device, *ops, *alone);
  return static_cast<int64_t>(replica.model.arena().bytes());
}

Network with_batch_norms() {
  const auto conv = [](Network& n) -> Network& { return n.conv2d(16, 3, {.padding = 1, .bias = false}).batch_norm(); };
  Network network("small", {8, 8, 3});
  conv(network).relu();
  return conv(network).relu().global_avg_pool().flatten().linear(10);
}

TEST(PlannedMemory, EqualsWhatARealReplicaAllocates) {
  for (const Network& network : {make_model("lenet", {28, 28, 1}, 10), with_batch_norms()}) {
    int64_t before = 0;
    for (const int64_t size : {1, 7, 40, 41, 300}) {
      PlanningMemory planned;
      CountingMemory real;
      const int64_t activations = build(planned, network, {.batch_sizes = {1, size}});
      EXPECT_EQ(build(real, network, {.batch_sizes = {1, size}}), activations);
      EXPECT_EQ(planned.peak(), real.peak) << network.name() << ' ' << size;
      EXPECT_GE(planned.peak(), activations);
      EXPECT_GE(planned.peak(), before) << "the memory decreases with the batch";
      before = planned.peak();
    }
  }
}

TEST(PlannedMemory, HasTheAverageAndTheSampleOfAMix) {
  const ReplicaConfig plain{.batch_sizes = {40}};
  ReplicaConfig averaged = plain, mixed = plain;
  averaged.averages = true;
  mixed.mix = {.mixup_alpha = 1};
  PlanningMemory without;
  build(without, with_batch_norms(), plain);
  for (const ReplicaConfig& config : {averaged, mixed}) {
    PlanningMemory planned;
    CountingMemory real;
    build(planned, with_batch_norms(), config);
    build(real, with_batch_norms(), config);
    EXPECT_EQ(planned.peak(), real.peak);
    EXPECT_GT(planned.peak(), without.peak());
  }
}

TEST(PlannedMemory, TakesNoMemoryForTheBatch) {
  PlanningMemory planned;
  EXPECT_GE(build(planned, with_batch_norms(), {.batch_sizes = {int64_t{1} << 22}}), int64_t{1} << 34);
}

}  // namespace
}  // namespace ddp
