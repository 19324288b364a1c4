#include "train/step.h"

#include "core/error.h"
#include "core/stopwatch.h"
#include "device/profile_range.h"

#include <algorithm>
#include <cstring>

namespace ddp {

Step::Step(Replica& replica, const StepConfig& config, PhaseTracker* phases, Injector* injector)
    : replica_(replica),
      config_(config),
      phases_(phases),
      injector_(injector),
      issued_(config.done),
      settled_(config.done),
      skipped_in_a_row_(config.skipped_in_a_row),
      graphs_(replica.device.graph_cache()) {
  announce_ = [this](ParameterId id) { replica_.reducer.ready(id); };
  replica.reducer.around_launch([this](int bucket, const auto& start) { launch(bucket, start); });
  for (size_t b = 0; b < replica.plan.buckets.size(); ++b) bucket_names_.push_back(fmt::format("bucket {}", b));
  for (Pending& pending : pending_)
    pending.frame = Buffer(replica.device.host_memory(), bytes_of_floats(replica.frame.size()));
}

Step::~Step() {
  replica_.device.quiesce();
  replica_.reducer.around_launch({});
}

std::optional<StepResult> Step::run(const NextBatch& next, double lr) {
  std::optional<StepResult> earlier;
  if (issued_ - settled_ == kStepsInFlight) earlier = settle();

  Replica& r = replica_;
  const ProfileRange range(r.device, "step");
  const int64_t step = issued_ + 1;
  const int fence = fence_of(issued_), last = config_.micro_batches - 1;
  Pending& now = pending_[fence - kStepFences];
  double data_ms = 0;
  for (int micro = 0; micro <= last; ++micro) {
    enter(Phase::data, step);
    const Stopwatch watch;
    if (injector_ && micro == 0) injector_->before_step(step, r);
    const DeviceBatch& batch = next();
    data_ms += watch.milliseconds();
    DDP_EXPECT(batch.plan.micro == micro);
    if (micro == 0) begin(now, batch.plan, lr);
    const bool begins = micro == 0, ends = micro == last;
    // What is recorded depends on the step's size and on which part of it this is.
    const auto work = [&] { compute(batch, begins, ends); };
    enter(Phase::compute, step);
    if (injector_ && injector_->unrecorded(step))
      work();
    else
      r.run(*graphs_, {.kind = micro, .size = batch.plan.step_size},
            std::ref(work));  // by reference: nothing is taken from the heap
  }
  now.result.data_ms = data_ms;
  r.device.download(now.frame.as<float>(), r.ticket(), bytes_of_floats(r.frame.size()));
  r.device.fence(fence);
  return earlier;
}

void Step::begin(Pending& now, const BatchPlan& batch, double lr) {
  Replica& r = replica_;
  now.result = {.step = ++issued_, .epoch = batch.epoch + 1, .lr = lr, .skipped = {}};
  now.expected_samples = batch.step_size;

  float* const frame = now.frame.as<float>();
  write_ticket({frame, static_cast<size_t>(r.ticket_layout.elements())}, r.ticket_layout, r.communicator.rank(),
               batch.local_step_size, issued_, config_.request ? config_.request() : Request::none);
  const OptimizerScalars scalars = r.update.scalars_for(lr, issued_);
  std::memcpy(frame + r.frame.scalars - r.frame.ticket, &scalars, sizeof scalars);
  const auto epoch = static_cast<uint32_t>(batch.epoch);
  std::memcpy(frame + r.frame.epoch - r.frame.ticket, &epoch, sizeof epoch);
  r.device.upload(r.ticket(), frame, bytes_of_floats(r.frame.timestamps - r.frame.ticket));
}

// The same device work for every step over as many samples: what differs lies in the frame, and in what the samples
// point to.
void Step::compute(const DeviceBatch& batch, bool begins, bool ends) {
  Replica& r = replica_;
  auto* const timestamps = reinterpret_cast<int64_t*>(r.gradients() + r.frame.timestamps);
  if (begins) {
    r.device.timestamp(timestamps);
    // An empty shard adds nothing, and takes part in every collective. What a scatter has left in the gaps between
    // tensors would stay.
    if (batch.size == 0 || r.reducer.wire().scatter) r.device.zero(r.gradients(), bytes_of_floats(r.plan.gradients));
  }
  if (ends) r.reducer.begin();
  r.model.forward_backward(batch, ends ? announce_ : GradientReady{});
  if (!ends) return;

  if (!r.batch_norms.empty()) flag_nonfinite(r.statistics(), state_count(r.batch_norms), TicketLayout::kBadStatistics);
  r.reducer.ready(r.reducer.tail());
  r.device.timestamp(timestamps + 1);
  enter(Phase::allreduce, issued_);
  r.reducer.finish();
  enter(Phase::update, issued_);
  r.device.timestamp(timestamps + 2);
  update(batch.plan.step_size);
  r.device.timestamp(timestamps + 3);
}

void Step::update(int64_t samples) {
  Replica& r = replica_;
  const std::span<const float> bad(r.ticket() + r.ticket_layout.bad(0), r.ticket_layout.world);
  if (!r.batch_norms.empty())
    r.running_stats().update(r.state(), r.statistics(), static_cast<float>(samples), false, bad);
  r.update.issue(r.weights(), r.gradients(), reinterpret_cast<OptimizerScalars*>(r.gradients() + r.frame.scalars), bad);
  r.model.bind();
}

// Looked at before its sum, so that the ticket can tell whose it was.
void Step::launch(int bucket, const std::function<void()>& launch) {
  Replica& r = replica_;
  const ProfileRange range(r.device, bucket_names_[bucket].c_str());
  if (injector_) injector_->before_bucket(issued_, bucket, r);
  const Bucket& b = r.plan.buckets[bucket];
  const int64_t end = std::min(b.offset + b.count, r.plan.gradients);
  flag_nonfinite(r.gradients() + b.offset, end - b.offset, TicketLayout::bad_bucket(bucket));
  launch();
  if (phases_) phases_->launched(issued_, bucket);
}

void Step::flag_nonfinite(const float* values, int64_t count, float what) {
  Replica& r = replica_;
  r.ops.flag_nonfinite(values, count, what, r.ticket() + r.ticket_layout.bad(r.communicator.rank()));
}

void Step::enter(Phase phase, int64_t step) {
  if (phases_) phases_->enter(phase, step);
}

StepResult Step::settle() {
  enter(Phase::device, settled_ + 1);
  const int fence = fence_of(settled_++);
  Pending& done = pending_[fence - kStepFences];
  replica_.device.await(fence);
  if (phases_) phases_->step_ended(settled_);

  const StepFrame& layout = replica_.frame;
  const float* const frame = done.frame.as<float>();
  const auto* const timestamps = reinterpret_cast<const int64_t*>(frame + layout.timestamps - layout.ticket);
  const auto milliseconds = [&](int from) {
    return 1e-6 * static_cast<double>(timestamps[from + 1] - timestamps[from]);
  };
  StepResult& result = done.result;
  result.compute_ms = milliseconds(0) + milliseconds(2);
  result.exposed_comm_ms = milliseconds(1);

  const Ticket ticket =
      read_ticket({frame, static_cast<size_t>(replica_.ticket_layout.elements())}, replica_.ticket_layout.world);
  check_agreement(ticket, result.step, done.expected_samples);
  settle_bad_step(ticket, result);
  result.request = ticket.requested();
  result.samples = ticket.samples;
  result.loss = ticket.loss_sum / static_cast<double>(ticket.samples);
  return result;
}

void Step::settle_bad_step(const Ticket& ticket, StepResult& result) {
  const auto bad = bad_step(ticket, result.step);
  if (!bad) {
    skipped_in_a_row_ = 0;
    return;
  }
  if (!bad->skipped || ++skipped_in_a_row_ > config_.skip_limit)
    throw CollectiveError(Exit::numerics, bad->text + ". Lower --lr");
  result.skipped = bad->text;
}

std::vector<StepResult> Step::drain() {
  std::vector<StepResult> results;
  while (settled_ < issued_) results.push_back(settle());
  return results;
}

}  // namespace ddp
