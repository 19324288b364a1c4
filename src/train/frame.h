// What a step gets from the host and gives back to it, in one copy each way. It begins with the ticket, which is summed
// with the last bucket, and so lies behind the gradients. Offsets are in floats from the start of the flat gradients.
//
//   | gradients | padding | ticket | lr | stamps |
#pragma once

#include "ddp/bucket_plan.h"
#include "ddp/ticket.h"

#include <cstdint>

namespace ddp {

struct StepFrame {
  static constexpr int kStamps =
      4;  // int64 nanoseconds: step begins, gradients computed, gradients summed, weights updated

  StepFrame(const BucketPlan& plan, const TicketLayout& layout)
      : ticket(plan.padded), lr(plan.padded + layout.elements()), stamps((lr + 2) / 2 * 2), end(stamps + 2 * kStamps) {}

  int64_t size() const { return end - ticket; }

  int64_t ticket, lr, stamps, end;
};

}  // namespace ddp
