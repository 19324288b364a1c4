#include "train/in_flight_steps.h"

#include "core/error.h"

namespace ddp {

InFlightSteps::InFlightSteps(Replica& replica, const StepConfig& config)
    : replica_(replica),
      skip_limit_(config.skip_limit),
      request_(config.request),
      issued_(config.done),
      retired_(config.done),
      skipped_in_a_row_(config.skipped_in_a_row) {
  for (Slot& slot : slots_) slot.memory = Buffer(replica.device.host_memory(), replica.layout.host_bytes());
}

StepResult& InFlightSteps::push(const BatchPlan& plan, const OptimizerScalars& scalars) {
  Slot& slot = slot_of(++issued_);
  slot.result = {.step = issued_, .epoch = plan.epoch + 1, .skipped = {}};
  slot.expected_samples = plan.step_size;

  const StepBlock block = block_of(slot);
  write_ticket(block.ticket(), block.ticket_layout(), replica_.communicator.rank(), plan.local_step_size, issued_,
               request_ ? request_() : Request::none);
  *block.scalars() = scalars;
  *block.epoch() = static_cast<uint32_t>(plan.epoch);
  replica_.device.upload(replica_.block.ticket().data(), block.ticket().data(), block.inputs().size_bytes());
  return slot.result;
}

void InFlightSteps::download(double data_ms) {
  Slot& slot = slot_of(issued_);
  slot.result.data_ms = data_ms;
  const auto to = block_of(slot).all();
  replica_.device.download(to.data(), replica_.block.all().data(), to.size_bytes());
  replica_.device.fence(fence_of(issued_));
}

void InFlightSteps::await_oldest() { replica_.device.await(fence_of(retired_ + 1)); }

StepResult InFlightSteps::retire() {
  Slot& slot = slot_of(++retired_);
  const StepBlock block = block_of(slot);
  const auto times = block.timestamps();
  const auto milliseconds = [&](StepBlock::Time from, StepBlock::Time to) {
    return 1e-6 * static_cast<double>(times[to] - times[from]);
  };
  StepResult& result = slot.result;
  result.compute_ms =
      milliseconds(StepBlock::kBegin, StepBlock::kGradients) + milliseconds(StepBlock::kSums, StepBlock::kWeights);
  result.exposed_comm_ms = milliseconds(StepBlock::kGradients, StepBlock::kSums);

  const Ticket ticket = read_ticket(block.ticket(), block.ticket_layout().world);
  check_agreement(ticket, result.step, slot.expected_samples);
  check_finite(ticket, result);
  result.request = ticket.requested();
  result.samples = ticket.samples;
  result.loss = ticket.loss_sum / static_cast<double>(ticket.samples);
  return result;
}

void InFlightSteps::check_finite(const Ticket& ticket, StepResult& result) {
  const auto bad = bad_step(ticket, result.step);
  if (!bad) {
    skipped_in_a_row_ = 0;
    return;
  }
  if (!bad->skipped || ++skipped_in_a_row_ > skip_limit_)
    throw CollectiveError(Exit::numerics, bad->text + ". Lower --lr");
  result.skipped = bad->text;
}

}  // namespace ddp
