// What a step gets from the host and gives back to it, in one copy each way, behind the gradients and the statistics of
// batch norms. It begins with the ticket, which is summed like them. Offsets are in floats from the start of the flat
// gradients.
//
//   | gradients | padding | statistics | ticket | scalars | epoch | stamps |
#pragma once

#include "ddp/bucket_plan.h"
#include "ddp/ticket.h"
#include "ops/optimizer.h"

#include <cstdint>

namespace ddp {

struct StepFrame {
  // int64 nanoseconds: step begins, gradients computed, gradients summed, weights updated
  static constexpr int kTimestamps = 4;
  static constexpr int64_t kScalars = sizeof(OptimizerScalars) / sizeof(float);

  StepFrame(const BucketPlan& plan, const TicketLayout& layout)
      : statistics(plan.padded),
        ticket(plan.total - layout.elements()),
        scalars(plan.total),
        epoch(scalars + kScalars),
        timestamps((epoch + 2) / 2 * 2),
        end(timestamps + 2 * kTimestamps) {}

  int64_t size() const { return end - ticket; }

  int64_t statistics, ticket, scalars, epoch, timestamps, end;
};

}  // namespace ddp
