// The pause between two polls of a rank that waits: it yields the core, because ranks may share cores. After `patience`
// seconds without success it sleeps for 50 us, because the peer is then late or stopped, and another process may use
// the core.
#pragma once

#include "core/stopwatch.h"

#include <sched.h>

#include <chrono>
#include <thread>

namespace ddp {

class PollPause {
 public:
  explicit PollPause(double patience) : patience_(patience) {}
  void operator()() const {
    if (waiting_.seconds() < patience_)
      sched_yield();
    else
      std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  void restart() { waiting_ = {}; }  // after a success of a part

 private:
  double patience_;
  Stopwatch waiting_;
};

}  // namespace ddp
