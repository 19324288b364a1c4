#include "train/step/nonfinite_scan.h"

#include "train/step/replica.h"

#include <algorithm>

namespace ddp {

LaunchHook nonfinite_scan(const Replica& replica) {
  return [&r = replica](int number, const std::function<void()>& run) {
    float* const flag = &r.block.bad()[r.communicator.rank()];
    const int last = static_cast<int>(r.plan.buckets.size()) - 1;
    const bool once = r.scans_once;
    if (number <= last && !(once && number < last)) {
      const Bucket& bucket = r.plan.buckets[number];
      const int64_t begin = once ? 0 : bucket.offset, end = std::min(bucket.offset + bucket.count, r.plan.gradients);
      const auto mode = r.model.left_in_bf16();
      r.gradient_scan->run({.gradients = r.gradients(),
                            .bf16 = mode ? r.model.bf16_gradients() : nullptr,
                            .mode = mode.value_or(Gradient::overwrite),
                            .begin = begin,
                            .count = end - begin},
                           flag, once ? r.block.squares() : r.block.local_squares(),
                           once ? Gradient::overwrite : Gradient::add);
    }
    // The last collective contains the trailer: the batch-norm sums and the ticket.
    if (number + 1 == r.reducer.collectives() && r.bn_batch_sums_count() > 0)
      r.ops.flag_nonfinite(r.bn_batch_sums(), r.bn_batch_sums_count(), TicketLayout::kBadBnSums, flag);
    run();
  };
}

}  // namespace ddp
