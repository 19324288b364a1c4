#include "train/step.h"

#include "core/error.h"
#include "device/profile_range.h"

namespace ddp {
namespace {

size_t bytes_of(int64_t floats) { return static_cast<size_t>(floats) * sizeof(float); }

}  // namespace

Step::Step(Replica& replica, Watchdog* watchdog)
    : replica_(replica), watchdog_(watchdog), recorder_(replica.device.recorder()) {
  announce_ = [this](ParameterId id) { replica_.reducer.ready(id); };
  replica.reducer.around_launch([this](int bucket, const std::function<void()>& launch) {
    const ProfileRange range(replica_.device, bucket_names_[bucket].c_str());
    check_bucket(bucket);
    launch();
  });
  for (size_t b = 0; b < replica.plan.buckets.size(); ++b) bucket_names_.push_back(fmt::format("bucket {}", b));
  for (Pending& pending : pending_)
    pending.frame = Buffer(replica.device.host_memory(), bytes_of(replica.frame.size()));
}

Step::~Step() {
  replica_.device.quiesce();
  replica_.reducer.around_launch({});
}

std::optional<StepResult> Step::run(const Shard& shard, double lr, double data_ms) {
  std::optional<StepResult> earlier;
  if (issued_ - settled_ == kStepsInFlight) earlier = settle();

  Replica& r = replica_;
  const ProfileRange range(r.device, "step");
  const int fence = fence_of(issued_);
  Pending& now = pending_[fence - kStepFences];
  now.result = {.step = ++issued_, .epoch = shard.batch.epoch + 1, .lr = lr, .data_ms = data_ms};
  now.expected_samples = shard.batch.global_size;
  if (watchdog_) watchdog_->started(issued_);

  float* const frame = now.frame.as<float>();
  write_ticket({frame, static_cast<size_t>(r.ticket_layout.elements())}, r.ticket_layout, r.communicator.rank(),
               shard.batch.size, issued_);
  frame[r.frame.lr - r.frame.ticket] = static_cast<float>(lr);
  r.device.upload(r.ticket(), frame, bytes_of(r.frame.stamps - r.frame.ticket));
  if (r.communicator.recordable())
    recorder_->run({.kind = kTrainingStep, .size = shard.batch.global_size}, [&] { compute(shard); });
  else
    compute(shard);
  r.device.download(frame, r.ticket(), bytes_of(r.frame.size()));
  r.device.fence(fence);
  return earlier;
}

// The same device work for every step over as many samples: what differs lies in the frame, and in what the samples
// point to.
void Step::compute(const Shard& shard) {
  Replica& r = replica_;
  auto* const stamps = reinterpret_cast<int64_t*>(r.gradients() + r.frame.stamps);
  r.device.stamp(stamps);
  r.reducer.begin();
  compute_gradients(shard);
  r.reducer.ready(r.reducer.ticket());
  r.device.stamp(stamps + 1);
  r.reducer.finish();
  r.device.stamp(stamps + 2);

  const std::span<const float> bad(r.ticket() + r.ticket_layout.bad(0), r.ticket_layout.world);
  r.ops.sgd(r.weights(), r.gradients(), r.plan.gradients, r.gradients() + r.frame.lr, bad);
  r.model.bind();
  r.device.stamp(stamps + 3);
}

void Step::compute_gradients(const Shard& shard) {
  Replica& r = replica_;
  if (shard.batch.size == 0) {  // an empty shard adds nothing, and takes part in every collective
    r.device.zero(r.gradients(), bytes_of(r.plan.gradients));
    for (ParameterId id = 0; id < r.reducer.ticket(); ++id) r.reducer.ready(id);
    return;
  }
  const auto sample_weight = static_cast<float>(1.0 / static_cast<double>(shard.batch.global_size));
  r.model.forward_backward(shard.samples, sample_weight, r.ticket(), announce_);
}

// Before its sum, so that the ticket can tell whose it was.
void Step::check_bucket(int bucket) {
  Replica& r = replica_;
  const Bucket& b = r.plan.buckets[bucket];
  const int64_t end = std::min(b.offset + b.count, r.plan.gradients);
  r.ops.flag_nonfinite(r.gradients() + b.offset, end - b.offset, TicketLayout::bad_bucket(bucket),
                       r.ticket() + r.ticket_layout.bad(r.communicator.rank()));
}

StepResult Step::settle() {
  const int fence = fence_of(settled_++);
  Pending& done = pending_[fence - kStepFences];
  replica_.device.await(fence);
  if (watchdog_) watchdog_->ended(settled_);

  const StepFrame& layout = replica_.frame;
  const float* const frame = done.frame.as<float>();
  const auto* const stamps = reinterpret_cast<const int64_t*>(frame + layout.stamps - layout.ticket);
  const auto milliseconds = [&](int from) { return 1e-6 * static_cast<double>(stamps[from + 1] - stamps[from]); };
  StepResult& result = done.result;
  result.compute_ms = milliseconds(0) + milliseconds(2);
  result.exposed_comm_ms = milliseconds(1);

  const Ticket ticket =
      read_ticket({frame, static_cast<size_t>(replica_.ticket_layout.elements())}, replica_.ticket_layout.world);
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
