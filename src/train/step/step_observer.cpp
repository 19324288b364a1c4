#include "train/step/step_observer.h"

#include "device/profile_range.h"

#include <fmt/format.h>

#include <utility>

namespace ddp {

StepObserver::StepObserver(Replica& replica, PhaseTracker* phases, StepTrace* trace)
    : replica_(replica), phases_(phases), trace_(trace), inner_(replica.reducer.launch_hook()) {
  for (size_t b = 0; b < replica.plan.buckets.size(); ++b) bucket_names_.push_back(fmt::format("start bucket {}", b));
  replica.reducer.set_launch_hook([this](int number, const auto& run) { observe(number, run); });
}

StepObserver::~StepObserver() {
  close_range();
  replica_.reducer.set_launch_hook(inner_);
}

void StepObserver::phase(Phase phase, int64_t step) {
  if (phase_ == Phase::data) (begun_ ? data_.inside_ms : data_.before_ms) += since_data_.milliseconds();
  phase_ = phase;
  step_ = step;
  if (phases_) phases_->enter(phase, step);
  close_range();
  replica_.device.begin_range(name_of(phase));
  in_range_ = true;
  if (phase == Phase::data) since_data_ = {};
  if (replica_.communicator.size() == 1) return;
  if (phase == Phase::allreduce) timestamp(StepBlock::kGradients);
  if (phase == Phase::update) timestamp(StepBlock::kSums);
}

void StepObserver::retired(int64_t step) {
  if (phases_) phases_->step_ended(step);
  close_range();
  if (trace_) trace_->retired(step);
}

void StepObserver::timestamp(StepBlock::Time time) {
  if (time == StepBlock::kBegin) begun_ = true;
  replica_.device.timestamp(&replica_.block.timestamps()[time]);
}

void StepObserver::begin_work(GraphKey key, bool alone) {
  if (trace_) trace_->begin_work(key, step_, alone);
}

void StepObserver::end_work() {
  if (trace_) trace_->end_work();
}

DataTimes StepObserver::end_step() {
  close_range();
  if (trace_) trace_->end_step(step_);
  begun_ = false;
  return std::exchange(data_, {});
}

void StepObserver::observe(int number, const std::function<void()>& run) {
  if (number == replica_.reducer.collectives()) {
    phase(Phase::allreduce, step_);
    inner_(number, run);
    phase(Phase::update, step_);
    return;
  }
  if (number >= std::ssize(bucket_names_)) return inner_(number, run);  // the trailer's own collective
  const ProfileRange range(replica_.device, bucket_names_[number].c_str());
  inner_(number, run);
  if (phases_) phases_->launched(step_, number);
}

void StepObserver::close_range() {
  if (std::exchange(in_range_, false)) replica_.device.end_range();
}

}  // namespace ddp
