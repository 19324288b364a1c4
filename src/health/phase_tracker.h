// The current phase of this rank, published in the heartbeat table, and a ring of the last 1000 events for the flight
// record. The training thread writes; any thread may read.
#pragma once

#include "comm/communicator.h"
#include "comm/heartbeat/heartbeat_table.h"
#include "core/span_recorder.h"

#include <array>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <mutex>
#include <string>

namespace ddp {

enum class Phase : int32_t {
  start_up,
  reading,     // lists, checks or measures the data before the first step
  data,        // waits for the loader
  compute,     // computes, or submits work to the device
  allreduce,   // waits for the allreduce of a step
  update,      // updates the weights; with --zero, gathers them too
  device,      // waits until the device has finished a step
  replicas,    // compares the replicas, which waits for the other ranks
  measuring,   // measures the communication between steps, which waits for the other ranks
  evaluation,  // computes a batch of an evaluation
  saving,      // waits for a snapshot or for the disk
  shutdown     // training has ended; writes the results and waits for the checkpoint writer
};

constexpr bool part_of_step(Phase phase) { return phase >= Phase::data && phase <= Phase::device; }
const char* name_of(Phase phase);  // such as "in the data loader"
const char* key_of(Phase phase);   // such as "data"

class PhaseTracker {
 public:
  explicit PhaseTracker(HeartbeatTable& heartbeats);  // enters start_up; `heartbeats` outlives it

  // These do not allocate and take a short lock. A step begins with its first data phase.
  void enter(Phase phase, int64_t step);
  void launched(int64_t step, int bucket);  // this rank has launched the collective of `bucket`
  void step_ended(int64_t step);            // the step's result is known

  // While a Recording lives, each phase is recorded when the next one begins. Null: none.
  class Recording {
   public:
    Recording(PhaseTracker& phases, SpanRecorder* spans) : phases_(phases) { phases_.record_to(spans); }
    ~Recording() { phases_.record_to(nullptr); }
    Recording(const Recording&) = delete;
    Recording& operator=(const Recording&) = delete;

   private:
    PhaseTracker& phases_;
  };

  // The longest time between two consecutive step ends with no other phase between them, over the last 64; 0: none yet.
  std::chrono::nanoseconds slowest_step() const;

  // publish_collective() publishes the collective that this rank waits for. It counts the completed collectives of
  // `communicator`; each step has `collectives` of them. Null ends the counting. Between steps the communicator may be
  // used for other collectives.
  void count(const Communicator* communicator, int collectives);
  void publish_collective();

  HeartbeatTable& heartbeats() { return heartbeats_; }

  // The flight record as JSON: {"format": 2, "rank", "host", "error", "events": [{"seconds", "event", "step",
  // "bucket"}]}. The oldest event comes first. "seconds" is the age of the event, "event" a phase's key, "launched" or
  // "step ended"; only "launched" has a bucket. "error" is there only where `error` is not empty. write() creates the
  // folder in its parent and replaces the file; it returns the reason of a failure, or an empty text.
  std::string json(const std::string& error = {}) const;
  std::string write(const std::filesystem::path& path, const std::string& error = {}) const;

 private:
  static constexpr int kEvents = 1000, kSteps = 64;
  enum class Kind : uint8_t { phase, launched, step_ended };
  struct Event {
    int64_t at_ns, step;
    int32_t detail;  // the phase or the bucket, by `kind`
    Kind kind;
  };
  void record_to(SpanRecorder* spans);
  void note(const Event& event) { events_[noted_++ % kEvents] = event; }

  HeartbeatTable& heartbeats_;
  mutable std::mutex mutex_;
  std::array<Event, kEvents> events_{};  // a ring
  int64_t noted_ = 0;
  std::array<int64_t, kSteps> steps_ns_{};  // a ring
  int64_t measured_ = 0;
  int64_t last_end_ns_ = 0;              // time of the last step end; 0: another phase came after it
  int64_t newest_step_ = 0, ended_ = 0;  // the last step that began, that ended

  SpanRecorder* spans_ = nullptr;
  Event phase_{};  // the current one

  const Communicator* communicator_ = nullptr;
  int collectives_ = 1;
  int64_t first_counted_ = 0;                    // the last step that began while no other step ran; 0: none yet
  Communicator::Sequence completed_before_ = 0;  // collectives completed before that step
};

}  // namespace ddp
