#include "train/nonfinite_scan.h"

#include "train/replica.h"

#include <algorithm>

namespace ddp {

LaunchHook nonfinite_scan(const Replica& replica) {
  return [&r = replica](int number, const std::function<void()>& run) {
    const auto scan = [&](const float* values, int64_t count, float mark, float* squares) {
      r.ops.flag_nonfinite(values, count, mark, &r.block.bad()[r.communicator.rank()], squares);
    };
    // The last collective contains the trailer: the batch-norm sums and the ticket.
    if (number + 1 == r.reducer.collectives() && !r.batch_norms.empty())
      scan(r.bn_batch_sums(), state_count(r.batch_norms), TicketLayout::kBadBnSums, nullptr);
    if (number < std::ssize(r.plan.buckets)) {
      const Bucket& bucket = r.plan.buckets[number];
      const int64_t end = std::min(bucket.offset + bucket.count, r.plan.gradients);
      scan(r.gradients() + bucket.offset, end - bucket.offset, TicketLayout::bad_bucket(number),
           r.communicator.size() > 1 ? r.block.local_squares() : nullptr);
    }
    run();
  };
}

}  // namespace ddp
