#include "train/step.h"

#include "core/error.h"

namespace ddp {

Step::Step(Replica& replica) : replica_(replica), lr_(replica.device, sizeof(float)) {
  announce_ = [this](ParameterId id) { announce(id); };
  for (size_t i = 0; i < pending_.size(); ++i) {
    pending_[i].ticket.resize(replica.ticket_layout.elements());
    pending_[i].first_mark = static_cast<int>(i) * 4;
  }
}

std::optional<StepResult> Step::run(const Batch& batch, double lr, double data_ms) {
  std::optional<StepResult> earlier;
  if (issued_ - settled_ == kInFlight) earlier = settle();

  Replica& r = replica_;
  Pending& now = pending_[issued_++ % pending_.size()];
  now.result = {.step = issued_, .epoch = batch.epoch + 1, .lr = lr, .data_ms = data_ms};
  now.expected_samples = batch.global_size;
  const auto rate = static_cast<float>(lr);
  r.device.upload(lr_.data(), &rate, sizeof rate);

  r.device.mark(now.first_mark);
  r.reducer.begin();
  open_ticket(batch);
  compute_gradients(batch);
  r.reducer.ready(r.reducer.ticket());
  r.device.mark(now.first_mark + 1);
  r.reducer.finish();
  r.device.mark(now.first_mark + 2);

  const std::span<const float> bad(r.ticket() + r.ticket_layout.bad(0), r.ticket_layout.world);
  r.ops.sgd(r.weights(), r.gradients(), r.plan.gradients, lr_.as<float>(), bad);
  r.model.bind();
  r.device.download(now.ticket.data(), r.ticket(), now.ticket.size() * sizeof(float));
  r.device.mark(now.first_mark + 3);
  return earlier;
}

// This rank's part of the ticket; loss and correct predictions are written behind it by the model.
void Step::open_ticket(const Batch& batch) {
  const TicketLayout& layout = replica_.ticket_layout;
  std::vector<float>& slots = pending_[(issued_ - 1) % pending_.size()].ticket;
  write_ticket(slots, layout, replica_.communicator.rank(), batch.size, issued_);
  replica_.device.upload(replica_.ticket(), slots.data(), slots.size() * sizeof(float));
}

void Step::compute_gradients(const Batch& batch) {
  Replica& r = replica_;
  if (batch.size == 0) {  // an empty shard adds nothing, and takes part in every collective
    r.device.zero(r.gradients(), static_cast<size_t>(r.plan.gradients) * sizeof(float));
    for (ParameterId id = 0; id < r.reducer.ticket(); ++id) r.reducer.ready(id);
    return;
  }
  loss_checked_ = false;
  const auto sample_weight = static_cast<float>(1.0 / static_cast<double>(batch.global_size));
  r.model.forward_backward({batch.pixels, batch.labels, batch.size}, sample_weight, r.ticket(), announce_);
}

void Step::announce(ParameterId id) {
  Replica& r = replica_;
  float* const bad = r.ticket() + r.ticket_layout.bad(r.communicator.rank());
  if (!loss_checked_) r.ops.flag_nonfinite(r.ticket() + TicketLayout::kLossSum, 1, TicketLayout::kBadLoss, bad);
  loss_checked_ = true;
  r.ops.flag_nonfinite(r.gradients() + r.plan.parameter_offsets[id], r.plan.parameter_counts[id],
                       TicketLayout::bad_bucket(r.plan.bucket_of(id)), bad);
  r.reducer.ready(id);
}

StepResult Step::settle() {
  Pending& done = pending_[settled_++ % pending_.size()];
  Device& device = replica_.device;
  StepResult& result = done.result;
  result.compute_ms = device.milliseconds(done.first_mark, done.first_mark + 1) +
                      device.milliseconds(done.first_mark + 2, done.first_mark + 3);
  result.exposed_comm_ms = device.milliseconds(done.first_mark + 1, done.first_mark + 2);
  const Ticket ticket = read_ticket(done.ticket, replica_.ticket_layout.world);
  check_ticket(ticket, result.step, done.expected_samples);
  result.samples = ticket.samples;
  result.loss = ticket.loss_sum / static_cast<double>(ticket.samples);
  return result;
}

std::vector<StepResult> Step::drain() {
  std::vector<StepResult> results;
  while (settled_ < issued_) results.push_back(settle());
  return results;
}

}  // namespace ddp
