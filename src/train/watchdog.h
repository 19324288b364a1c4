// Ends a job that hangs. A thread of its own looks whether the oldest work under way is older than the limit, and
// whether the transport has failed; then it says what it knows, once, and calls `expired`, which is expected not to
// return.
#pragma once

#include "comm/communicator.h"

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

namespace ddp {

struct WatchdogConfig {
  std::chrono::milliseconds limit{0};  // for a step, from its start; 0: none
  int buckets = 1;                     // of a step
  int others = 0;                      // collectives of a step that follow its buckets
  std::function<void(const std::string&)> expired;
};

class Watchdog {
 public:
  // Counts the collectives of `communicator`, and looks for a failure of it and of `other`, which may be null. Both
  // outlive it.
  Watchdog(const WatchdogConfig& config, const Communicator& communicator, const Communicator* other = nullptr);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  // Steps start and end in order, numbered from 1; several may be under way.
  void started(int64_t step);
  void ended(int64_t step);

  // Anything else that waits for other ranks, such as "the evaluation", while no step is under way. The text is a
  // literal.
  void started(const char* work);
  void ended();

 private:
  using Clock = std::chrono::steady_clock;
  void watch();
  std::string finding() const;  // empty: all is well
  std::string describe_step() const;

  const WatchdogConfig config_;
  const Communicator& communicator_;
  const Communicator* other_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool stop_ = false;
  const char* work_ = nullptr;                   // what is under way where that is no step
  int64_t first_ = 0, started_ = 0, ended_ = 0;  // steps; `first_` was started when none was under way
  Communicator::Sequence before_first_ = 0;      // collectives completed by then
  Clock::time_point since_;                      // since when the oldest step has been the oldest
  std::thread thread_;
};

}  // namespace ddp
