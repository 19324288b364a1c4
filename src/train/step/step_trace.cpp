#include "train/step/step_trace.h"

#include "core/stopwatch.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

namespace ddp {
namespace {

constexpr int kClockReadings = 10;

}  // namespace

StepTrace::StepTrace(Replica& replica, SpanRecorder& spans, int micro_batches)
    : replica_(replica),
      spans_(spans),
      per_step_(replica.reducer.collectives() + replica.optimizer.collectives()),
      all_stamps_(kStamps + static_cast<size_t>(replica.reducer.collectives())),
      micro_batches_(micro_batches),
      recorded_micro_batches_(std::min(micro_batches, kMicroBatches)),
      stamps_(replica.device, sizeof(int64_t) * all_stamps_ * static_cast<size_t>(recorded_micro_batches_)),
      ready_ns_(replica.reducer.collectives()) {
  for (Slot& slot : slots_) {
    slot.stamps = Buffer(replica.device.host_memory(),
                         sizeof(int64_t) * all_stamps_ * static_cast<size_t>(recorded_micro_batches_));
    slot.labels.resize(recorded_micro_batches_);
  }
  for (int c = 0; c < replica.reducer.collectives(); ++c)
    bucket_names_.push_back(c < std::ssize(replica.plan.buckets) ? fmt::format("bucket {}", c) : "trailer");
  replica.communicator.record_done_times();
  replica.device.observe_ranges(this);
  replica.reducer.set_ready_hook([this](int collective) {
    if (current_) stamp({.mark = Mark::ready, .bucket = collective});
  });
}

StepTrace::~StepTrace() {
  replica_.device.quiesce();  // the device may still write timestamps
  replica_.device.observe_ranges(nullptr);
  replica_.reducer.set_ready_hook({});
}

void StepTrace::begin_work(GraphKey key, int64_t step, bool alone) {
  if (alone) {
    first_counted_ = step;
    completed_before_ = replica_.communicator.completed();
    compare_clocks();
  }
  const int micro = key.kind;
  const bool last = micro + 1 == micro_batches_;
  if (!last && micro + 1 >= recorded_micro_batches_) return;
  current_ = &labels_[key];
  fresh_ = true;
  depth_ = 0;
  place_ = last ? recorded_micro_batches_ - 1 : micro;
  slot_of(step).labels[place_] = current_;
}

void StepTrace::end_work() {
  while (depth_ > 0) end();
  current_ = nullptr;
}

// The reading that took least time has the least error.
void StepTrace::compare_clocks() {
  if (replica_.device.is_host() || !spans_.on()) return;
  int64_t shortest = std::numeric_limits<int64_t>::max();
  auto* const read = slots_[0].stamps.as<int64_t>();  // free, as no step is in flight
  for (int i = 0; i < kClockReadings; ++i) {
    const int64_t before = steady_ns();
    replica_.device.timestamp(stamps_.as<int64_t>());
    replica_.device.download(read, stamps_.data(), sizeof(int64_t));
    replica_.device.synchronize();
    const int64_t after = steady_ns();
    if (after - before >= shortest) continue;
    shortest = after - before;
    device_offset_ns_ = before + shortest / 2 - *read;
  }
}

void StepTrace::stamp(const Label& label) {
  if (std::exchange(fresh_, false)) {
    current_->clear();
    current_->reserve(all_stamps_);
    range_stamps_ = 0;
  }
  if (label.mark != Mark::ready && range_stamps_++ >= kStamps) return;
  if (current_->size() == all_stamps_) return;
  replica_.device.timestamp(stamps_of(stamps_, place_) + current_->size());
  current_->push_back(label);
}

// An error of the device shows again in the next call of the step.
void StepTrace::begin(const char* name) noexcept try {
  if (!current_) return;
  stamp({.mark = Mark::begin, .name = name});
  ++depth_;
} catch (...) {
}

void StepTrace::end() noexcept try {
  if (!current_ || depth_ == 0) return;  // the range began before the work
  --depth_;
  stamp({.mark = Mark::end});
} catch (...) {
}

void StepTrace::end_step(int64_t step) {
  Slot& slot = slot_of(step);
  slot.recorded = spans_.on();
  if (!slot.recorded) return;
  for (size_t place = 0; place < slot.labels.size(); ++place)
    replica_.device.download(stamps_of(slot.stamps, place), stamps_of(stamps_, place),
                             slot.labels[place]->size() * sizeof(int64_t));
}

void StepTrace::retired(int64_t step) {
  const Slot& slot = slot_of(step);
  if (!slot.recorded) return;
  record_layers(slot, step);
  record_buckets(step);
}

void StepTrace::record_layers(const Slot& slot, int64_t step) {
  constexpr int kDepth = 8;
  std::ranges::fill(ready_ns_, 0);
  std::array<const Label*, kDepth> open{};
  std::array<int64_t, kDepth> begun{};
  for (size_t place = 0; place < slot.labels.size(); ++place) {
    const int64_t* at = stamps_of(slot.stamps, place);
    int depth = 0;
    for (const Label& label : *slot.labels[place]) {
      const int64_t time = *at++ + device_offset_ns_;
      if (label.mark == Mark::ready) {
        ready_ns_[label.bucket] = time;
      } else if (label.mark == Mark::begin) {
        if (depth < kDepth) {
          open[depth] = &label;
          begun[depth] = time;
        }
        ++depth;
      } else if (--depth < kDepth) {
        spans_.record({.track = Track::layers,
                       .name = open[depth]->name,
                       .begin_ns = begun[depth],
                       .end_ns = time,
                       .number = step});
      }
    }
  }
}

// Collectives complete in the order of the steps, so that their count gives the step and the bucket.
void StepTrace::record_buckets(int64_t step) {
  const auto before = completed_before_ + static_cast<Communicator::Sequence>((step - first_counted_) * per_step_);
  for (int c = 0; c < std::ssize(ready_ns_); ++c) {
    const auto done = replica_.communicator.done_ns(before + static_cast<Communicator::Sequence>(c) + 1);
    if (!done || ready_ns_[c] == 0) continue;  // its stamp had no room
    const int64_t offset = replica_.communicator.done_on_device_clock() ? device_offset_ns_ : 0;
    spans_.record({.track = Track::buckets,
                   .lane = c,
                   .name = bucket_names_[c].c_str(),
                   .begin_ns = ready_ns_[c],
                   .end_ns = std::max(ready_ns_[c], *done + offset),  // a device may take a timestamp late
                   .number = step});
  }
}

}  // namespace ddp
