#include "train/step/nonfinite_scan.h"

#include "tests/train/small.h"
#include "tests/train/world.h"

#include <gtest/gtest.h>

#include <cmath>
#include <utility>

namespace ddp::testing {
namespace {

// Each launch scans its bucket; the last launch also scans the batch-norm sums.
TEST(NonfiniteScan, MarksThisRanksSlotOfTheTicket) {
  const MemoryDataset data = small_data(16);
  for (const bool zero : {false, true})
    run_world(2, [&](Communicator& c, Device& device, Ops& ops) {
      Fixture fixture({.batch_size = 16, .replica = {.zero = zero}}, norm_network(), data, device, ops, c);
      Replica& r = fixture.replica;
      const auto marks = [&](int number, float& poisoned, float value) {
        poisoned = value;
        bool ran = false;
        r.reducer.launch_hook()(number, [&] { ran = true; });
        EXPECT_TRUE(ran);
        poisoned = 0;
        EXPECT_EQ(r.block.bad()[1 - c.rank()], 0);
        return std::exchange(r.block.bad()[c.rank()], 0.0f);
      };
      const int collectives = r.reducer.collectives(), buckets = static_cast<int>(r.plan.buckets.size());
      EXPECT_EQ(marks(1, r.gradients()[r.plan.buckets[1].offset], INFINITY), TicketLayout::bad_bucket(1));
      EXPECT_EQ(marks(1, r.gradients()[r.plan.buckets[0].offset], NAN), 0);
      EXPECT_EQ(marks(collectives - 1, *r.bn_batch_sums(), NAN), TicketLayout::kBadBnSums);
      EXPECT_EQ(marks(buckets - 1, *r.bn_batch_sums(), NAN), zero ? 0 : TicketLayout::kBadBnSums);
      EXPECT_EQ(marks(collectives, *r.bn_batch_sums(), NAN), 0);  // the wait scans nothing
    });
}

// Where no bucket waits for a sum, the last launch scans them all.
TEST(NonfiniteScan, OfOneRankNamesTheFirstBadBucket) {
  const MemoryDataset data = small_data(16);
  run_world(1, [&](Communicator& c, Device& device, Ops& ops) {
    Fixture fixture({.batch_size = 16}, norm_network(), data, device, ops, c);
    Replica& r = fixture.replica;
    const int last = static_cast<int>(r.plan.buckets.size()) - 1;
    ASSERT_GT(last, 1);
    r.gradients()[r.plan.buckets[1].offset] = r.gradients()[r.plan.buckets[2].offset] = NAN;
    const auto launch = [&](int number) {
      r.reducer.launch_hook()(number, [] {});
      return r.block.bad()[0];
    };
    EXPECT_EQ(launch(last - 1), 0);
    EXPECT_EQ(launch(last), TicketLayout::bad_bucket(1));
    r.zero_gradients();
    r.gradients()[0] = r.gradients()[r.plan.buckets[last].offset] = 2;
    launch(last);
    EXPECT_EQ(*r.block.squares(), 8);
  });
}

}  // namespace
}  // namespace ddp::testing
