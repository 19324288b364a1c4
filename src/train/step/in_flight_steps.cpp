#include "train/step/in_flight_steps.h"

#include "core/error.h"

#include <algorithm>
#include <tuple>

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

StepResult& InFlightSteps::push(const DeviceBatch& batch, const OptimizerScalars& scalars) {
  const BatchPlan& plan = batch.plan;
  Slot& slot = slot_of(++issued_);
  slot.result = {.step = issued_, .epoch = plan.epoch + 1, .sequence_length = batch.sequence_length, .skipped = {}};
  slot.expected_samples = plan.step_size;
  slot.seen_samples = static_cast<float>(plan.local_step_size);

  const StepBlock block = block_of(slot);
  write_ticket(block.ticket(), block.ticket_layout(), replica_.communicator.rank(), plan.local_step_size, issued_,
               request_ ? request_() : Request::none);
  *block.scalars() = scalars;
  if (replica_.corrects_divisor()) block.scalars()->gradient_scale = static_cast<float>(plan.step_size);
  *block.epoch() = static_cast<uint32_t>(plan.epoch);
  *block.squares() = 0;
  if (replica_.mix.any())
    *block.mix() = draw_mix(replica_.mix, replica_.seed, plan.epoch, plan.step, replica_.model.input());
  const int64_t ids = batch.ids_to_upload ? batch.stored() : 0;
  std::copy_n(batch.ids_to_upload, ids, block.ids().begin());
  replica_.device.upload(replica_.block.ticket().data(), block.ticket().data(), block.inputs(ids).size_bytes());
  slot.label_weights = 0;
  exclude(batch);
  add_label_weights(batch);
  return slot.result;
}

void InFlightSteps::add(const DeviceBatch& batch) {
  if (batch.ids_to_upload)
    replica_.device.upload(replica_.block.ids().data(), batch.ids_to_upload,
                           static_cast<size_t>(batch.stored()) * sizeof(int32_t));
  exclude(batch);
  add_label_weights(batch);
}

// The copies from local variables are done when the calls return.
void InFlightSteps::exclude(const DeviceBatch& batch) {
  const auto& [device, block] = std::tie(replica_.device, replica_.block);
  unread_ = unread_ || ((batch.excluded > 0 || batch.partner_excluded) && !replica_.excludes);
  if (unread_) {
    const float mark = TicketLayout::kUnreadable;
    device.upload(&block.bad()[replica_.communicator.rank()], &mark, sizeof mark);
  } else if (batch.excluded > 0) {
    const float seen = slot_of(issued_).seen_samples -= static_cast<float>(batch.excluded);
    device.upload(&block.ticket()[TicketLayout::kSamples], &seen, sizeof seen);
  }
}

void InFlightSteps::add_label_weights(const DeviceBatch& batch) {
  if (replica_.class_weights.empty()) return;
  const TicketLayout& layout = replica_.block.ticket_layout();
  const auto weights = static_cast<float>(slot_of(issued_).label_weights += batch.label_weights);
  replica_.device.upload(&replica_.block.ticket()[layout.weights()], &weights, sizeof weights);
}

void InFlightSteps::download(const DataTimes& data) {
  Slot& slot = slot_of(issued_);
  slot.data = data;
  const auto to = block_of(slot).results();
  replica_.device.download(to.data(), replica_.block.results().data(), to.size_bytes());
  replica_.device.fence(fence_of(issued_));
}

void InFlightSteps::await_oldest() { replica_.device.await(fence_of(retired_ + 1)); }

void InFlightSteps::set_times(const StepBlock& block, Slot& slot) {
  const auto times = block.timestamps();
  const auto milliseconds = [&](int64_t from, int64_t to) { return 1e-6 * static_cast<double>(to - from); };
  const bool alone = replica_.communicator.size() == 1;
  const double exposed_comm = alone ? 0 : milliseconds(times[StepBlock::kGradients], times[StepBlock::kSums]);
  const double idle = last_end_ns_ == 0 ? 0 : milliseconds(last_end_ns_, times[StepBlock::kBegin]);
  const bool host = replica_.device.is_host();
  slot.result.times = {.data = host ? slot.data.before_ms + slot.data.inside_ms : std::min(idle, slot.data.before_ms),
                       .compute = milliseconds(times[StepBlock::kBegin], times[StepBlock::kWeights]) - exposed_comm -
                                  (host ? slot.data.inside_ms : 0),
                       .exposed_comm = exposed_comm};
  slot.result.begin_ns = times[StepBlock::kBegin];
  last_end_ns_ = times[StepBlock::kWeights];
}

StepResult InFlightSteps::retire() {
  Slot& slot = slot_of(++retired_);
  const StepBlock block = block_of(slot);
  StepResult& result = slot.result;
  set_times(block, slot);

  const Ticket ticket = read_ticket(block.ticket(), block.ticket_layout());
  check_agreement(ticket, result.step, slot.expected_samples, replica_.excludes);
  result.unread = ends_unread(ticket);
  if (result.unread) return result;
  check_finite(ticket, result);
  result.request = ticket.requested();
  result.excluded = slot.expected_samples - ticket.samples;
  result.samples = ticket.samples;
  result.loss = ticket.samples == 0 ? 0 : ticket.loss_sum / ticket.divisor;
  // The gradient was divided by the planned samples.
  const double correction = ticket.samples == 0 ? 1 : static_cast<double>(slot.expected_samples) / ticket.divisor;
  result.local_squares = correction * correction * ticket.squares;
  result.squares = correction * correction * *block.squares();
  return result;
}

void InFlightSteps::check_finite(const Ticket& ticket, StepResult& result) {
  const auto bad = bad_step(ticket, result.step);
  if (!bad) {
    skipped_in_a_row_ = 0;
    return;
  }
  result.skipped = bad->text;
  if (ticket.samples == 0) return;
  if (!bad->skipped || ++skipped_in_a_row_ > skip_limit_)
    throw CollectiveError(Exit::numerics, bad->text + ". Lower --lr");
}

}  // namespace ddp
