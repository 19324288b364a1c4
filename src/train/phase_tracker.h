// What this rank is doing, told to all ranks on the heartbeat table, and the last thousand of such events, kept for a
// post mortem. Told by the training thread; read by any.
#pragma once

#include "comm/communicator.h"
#include "comm/heartbeat_table.h"

#include <array>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <mutex>
#include <string>

namespace ddp {

enum class Phase : int32_t {
  start_up,
  data,        // waits for the loader
  compute,     // computes, or issues work for the device
  allreduce,   // waits for the sums of a step
  update,      // updates weights, and with state in parts gathers them
  device,      // waits for the device to end a step
  replicas,    // compares replicas: waits for others
  evaluation,  // a batch of it
  saving,      // waits for a snapshot or for the disk
  ending
};

constexpr bool part_of_step(Phase phase) { return phase >= Phase::data && phase <= Phase::device; }
const char* name_of(Phase phase);  // such as "in the data loader"

class PhaseTracker {
 public:
  explicit PhaseTracker(HeartbeatTable& heartbeats);  // in start_up

  // Neither blocks for long nor allocates. A step begins with its first data phase.
  void enter(Phase phase, int64_t step);
  void launched(int64_t step, int bucket);  // of this rank's collectives
  void step_ended(int64_t step);            // its result is known

  // Between two ends with nothing but steps between them, of the last 64; 0: none yet.
  std::chrono::nanoseconds slowest_step() const;

  // From now on publish_collective() finds which collective is awaited, by counting those of `communicator`, of which a
  // step has `collectives`. Null: no longer. The communicator may be used otherwise while no step is under way.
  void count(const Communicator* communicator, int collectives);
  void publish_collective();  // posts it

  HeartbeatTable& heartbeats() { return heartbeats_; }

  // The flight record as JSON: {"format": 2, "rank", "host", "error", "events": [{"seconds", "event", "step",
  // "bucket"}]}. The oldest event comes first. "seconds" is the age of the event, "event" a phase's key, "launched" or
  // "step ended"; only "launched" has a bucket. "error" is there only where `error` is not empty. write() creates the
  // folders and replaces the file; it returns the reason of a failure, or an empty text.
  std::string json(const std::string& error = {}) const;
  std::string write(const std::filesystem::path& path, const std::string& error = {}) const;

 private:
  static constexpr int kEvents = 1000, kSteps = 64;
  enum class Kind : uint8_t { phase, launched, step_ended };
  struct Event {
    int64_t at_ns, step;
    int32_t detail;  // the phase or the bucket
    Kind kind;
  };
  void note(int64_t at_ns, int64_t step, int32_t detail, Kind kind);

  HeartbeatTable& heartbeats_;
  mutable std::mutex mutex_;
  std::array<Event, kEvents> events_{};  // a ring
  int64_t noted_ = 0;
  std::array<int64_t, kSteps> steps_ns_{};  // a ring
  int64_t measured_ = 0;
  int64_t last_end_ns_ = 0;              // 0: something else came since
  int64_t newest_step_ = 0, ended_ = 0;  // begun, ended

  const Communicator* communicator_ = nullptr;
  int collectives_ = 1;
  int64_t first_counted_ = 0;                    // the step that was begun when none was under way; 0: none yet
  Communicator::Sequence completed_before_ = 0;  // by then
};

}  // namespace ddp
