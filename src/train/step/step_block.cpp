#include "train/step/step_block.h"

namespace ddp {
namespace {

constexpr int64_t kScalars = sizeof(OptimizerScalars) / sizeof(float);
constexpr int64_t kFloatsOfMix = sizeof(BatchMix) / sizeof(float);
constexpr int64_t kFloatsOfTime = sizeof(int64_t) / sizeof(float);

int64_t rounded_up(int64_t offset, int64_t multiple) { return (offset + multiple - 1) / multiple * multiple; }

}  // namespace

StepBlockLayout::StepBlockLayout(const BucketPlan& plan, const TicketLayout& of_ticket, int64_t largest_batch)
    : ticket_layout(of_ticket),
      bn_batch_sums(plan.padded),
      ticket(plan.total - ticket_layout.elements()),
      scalars(plan.total),
      epoch(scalars + kScalars),
      squares(epoch + 1),
      timestamps(rounded_up(squares + 1, kFloatsOfTime)),
      mix(timestamps + kFloatsOfTime * StepBlock::kTimes),
      ids(mix + kFloatsOfMix),
      end(ids + largest_batch) {}

StepBlock StepBlockLayout::on_device(float* gradients) const { return {gradients + ticket, *this}; }

// On the host the ticket has the same offset from an 8-byte boundary as on the device, so timestamps are aligned there
// too.
size_t StepBlockLayout::host_bytes() const {
  return sizeof(float) * static_cast<size_t>(ticket % kFloatsOfTime + end - ticket);
}

StepBlock StepBlockLayout::on_host(void* memory) const {
  return {static_cast<float*>(memory) + ticket % kFloatsOfTime, *this};
}

std::span<float> StepBlock::bad() const { return ticket().subspan(ticket_layout().bad(0), ticket_layout().world); }

}  // namespace ddp
