#include "train/step/step_block.h"

#include <gtest/gtest.h>

#include <vector>

namespace ddp {
namespace {

struct Case {
  std::vector<int64_t> parameters;
  int world;
  int64_t bn_batch_sums;
};

// The ticket has odd and even offsets.
const std::vector<Case> kCases = {{{10, 20, 7}, 1, 0}, {{10, 20, 8}, 1, 0}, {{64, 3}, 2, 5}, {{64, 3}, 3, 128}};

TEST(StepBlock, LayoutPlacesTheFieldsInOrder) {
  for (const auto& [parameters, world, bn_batch_sums] : kCases) {
    const int64_t slots = TicketLayout{world}.elements();
    const BucketPlan plan = plan_buckets(parameters, world, bn_batch_sums + slots, {});
    const StepBlockLayout layout(plan, {world}, 5);
    EXPECT_EQ(layout.bn_batch_sums, plan.padded);
    EXPECT_EQ(layout.ticket, plan.padded + bn_batch_sums);
    EXPECT_EQ(layout.scalars, plan.total);
    EXPECT_EQ(layout.epoch, layout.scalars + 4);
    EXPECT_EQ(layout.squares, layout.epoch + 1);
    EXPECT_EQ(layout.timestamps, layout.epoch + (layout.epoch % 2 == 0 ? 2 : 3));
    EXPECT_EQ(layout.mix, layout.timestamps + 8);
    EXPECT_EQ(layout.ids, layout.mix + 5);
    EXPECT_EQ(layout.end, layout.ids + 5);
  }
}

TEST(StepBlock, HostCopyHasTheLayoutOfTheDevice) {
  for (const auto& [parameters, world, bn_batch_sums] : kCases) {
    const BucketPlan plan = plan_buckets(parameters, world, bn_batch_sums + TicketLayout{world}.elements(), {});
    const StepBlockLayout layout(plan, {world}, 5);
    std::vector<int64_t> gradients(layout.end / 2 + 1), copy(layout.host_bytes() / sizeof(int64_t) + 1);
    auto* const begin = reinterpret_cast<float*>(gradients.data());
    const StepBlock device = layout.on_device(begin), host = layout.on_host(copy.data());
    EXPECT_EQ(device.ticket().data(), begin + layout.ticket);
    EXPECT_EQ(static_cast<void*>(device.ids().data() + device.ids().size()), begin + layout.end);
    const auto place = [](const StepBlock& block, const void* part) {
      return static_cast<const char*>(part) - reinterpret_cast<const char*>(block.ticket().data());
    };
    EXPECT_EQ(place(host, host.scalars()), place(device, device.scalars()));
    EXPECT_EQ(place(host, host.epoch()), place(device, device.epoch()));
    EXPECT_EQ(place(host, host.bad().data()), place(device, device.bad().data()));
    EXPECT_EQ(std::ssize(host.bad()), world);
    for (const StepBlock* block : {&device, &host}) {
      EXPECT_EQ(reinterpret_cast<uintptr_t>(block->timestamps().data()) % alignof(int64_t), 0u);
      EXPECT_EQ(static_cast<void*>(block->inputs(3).data() + block->inputs(3).size()), block->ids().data() + 3);
      EXPECT_EQ(static_cast<void*>(block->results().data() + block->results().size()), block->mix());
      EXPECT_EQ(static_cast<void*>(block->timestamps().data() + StepBlock::kTimes), block->mix());
    }
    EXPECT_LE(reinterpret_cast<char*>(host.inputs(5).data() + host.inputs(5).size()),
              reinterpret_cast<char*>(copy.data()) + layout.host_bytes());
  }
}

}  // namespace
}  // namespace ddp
