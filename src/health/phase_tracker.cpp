#include "health/phase_tracker.h"

#include "core/durable_file.h"
#include "core/error.h"
#include "core/stopwatch.h"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace ddp {
namespace {

constexpr int kRecordFormat = 2;  // format 1 had "sums" for "allreduce" and "ending" for "shutdown"

struct PhaseNames {
  const char* key;
  const char* text;
};

PhaseNames names_of(Phase phase) {
  switch (phase) {
    case Phase::start_up: return {"start-up", "in start-up"};
    case Phase::reading: return {"reading", "reading the data"};
    case Phase::data: return {"data", "in the data loader"};
    case Phase::compute: return {"compute", "computing"};
    case Phase::allreduce: return {"allreduce", "waiting for the allreduce"};
    case Phase::update: return {"update", "updating the weights"};
    case Phase::device: return {"device", "waiting for the device"};
    case Phase::replicas: return {"replicas", "comparing the replicas"};
    case Phase::measuring: return {"measuring", "measuring the communication"};
    case Phase::evaluation: return {"evaluation", "in the evaluation"};
    case Phase::saving: return {"saving", "saving"};
    case Phase::shutdown: return {"shutdown", "shutting down"};
  }
  return {"unknown", "in an unknown phase"};
}

}  // namespace

const char* name_of(Phase phase) { return names_of(phase).text; }
const char* key_of(Phase phase) { return names_of(phase).key; }

PhaseTracker::PhaseTracker(HeartbeatTable& heartbeats) : heartbeats_(heartbeats) { enter(Phase::start_up, 0); }

void PhaseTracker::enter(Phase phase, int64_t step) {
  heartbeats_.publish(step, static_cast<int32_t>(phase));
  const std::lock_guard lock(mutex_);
  const Event begun{steady_ns(), step, static_cast<int32_t>(phase), Kind::phase};
  note(begun);
  if (spans_ && spans_->on())
    spans_->record({.track = Track::step,
                    .name = key_of(static_cast<Phase>(phase_.detail)),
                    .begin_ns = phase_.at_ns,
                    .end_ns = begun.at_ns,
                    .number = phase_.step});
  phase_ = begun;
  if (!part_of_step(phase)) last_end_ns_ = 0;
  if (phase != Phase::data || step <= newest_step_) return;
  if (communicator_ && newest_step_ == ended_) {
    first_counted_ = step;
    completed_before_ = communicator_->completed();
  }
  newest_step_ = step;
}

void PhaseTracker::launched(int64_t step, int bucket) {
  const std::lock_guard lock(mutex_);
  note({steady_ns(), step, bucket, Kind::launched});
}

void PhaseTracker::step_ended(int64_t step) {
  const std::lock_guard lock(mutex_);
  const int64_t now = steady_ns();
  note({now, step, 0, Kind::step_ended});
  if (last_end_ns_ != 0) steps_ns_[measured_++ % kSteps] = now - last_end_ns_;
  last_end_ns_ = now;
  ended_ = step;
}

void PhaseTracker::record_to(SpanRecorder* spans) {
  const std::lock_guard lock(mutex_);
  spans_ = spans;
}

std::chrono::nanoseconds PhaseTracker::slowest_step() const {
  const std::lock_guard lock(mutex_);
  return std::chrono::nanoseconds(*std::max_element(steps_ns_.begin(), steps_ns_.end()));
}

void PhaseTracker::count(const Communicator* communicator, int collectives) {
  DDP_EXPECT(collectives > 0);
  const std::lock_guard lock(mutex_);
  communicator_ = communicator;
  collectives_ = collectives;
  first_counted_ = 0;
}

// Collectives complete in the order of the steps, so that their count gives the step and the collective.
void PhaseTracker::publish_collective() {
  const std::lock_guard lock(mutex_);
  if (!communicator_ || first_counted_ == 0) return;
  const auto done = static_cast<int64_t>(communicator_->completed() - completed_before_);
  // Collectives between steps belong to no step.
  const int64_t at_most = (newest_step_ + 1 - first_counted_) * collectives_;
  const int64_t counted = std::min(done, at_most);
  heartbeats_.publish_collective(first_counted_ + counted / collectives_, static_cast<int32_t>(counted % collectives_));
}

std::string PhaseTracker::json(const std::string& error) const {
  auto events = nlohmann::json::array();
  {
    const std::lock_guard lock(mutex_);
    const int64_t now = steady_ns();
    for (int64_t i = std::max<int64_t>(0, noted_ - kEvents); i < noted_; ++i) {
      const Event& event = events_[i % kEvents];
      nlohmann::json entry = {{"seconds", 1e-9 * static_cast<double>(now - event.at_ns)}, {"step", event.step}};
      switch (event.kind) {
        case Kind::phase: entry["event"] = key_of(static_cast<Phase>(event.detail)); break;
        case Kind::step_ended: entry["event"] = "step ended"; break;
        case Kind::launched: entry["event"] = "launched"; entry["bucket"] = event.detail;
      }
      events.push_back(std::move(entry));
    }
  }
  const int rank = heartbeats_.rank();
  nlohmann::json record{
      {"format", kRecordFormat}, {"rank", rank}, {"host", heartbeats_.host_of(rank)}, {"events", std::move(events)}};
  if (!error.empty()) record["error"] = error;
  // The error may name a file, and that may be no UTF-8.
  return record.dump(1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string PhaseTracker::write(const std::filesystem::path& path, const std::string& error) const {
  try {
    if (path.has_parent_path()) create_subfolder(path.parent_path());
    replace_file(path, json(error) + "\n", false);
    return "";
  } catch (const Error& e) {
    return e.what();
  }
}

}  // namespace ddp
