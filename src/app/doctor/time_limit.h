// A deadline for work that may hang: a thread of its own beats ten times a second, and calls `expired` once when the
// time is up, which may end the process. Time for which this process was stopped does not count: others have spoken.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace ddp::doctor {

class TimeLimit {
 public:
  // `limit` 0: none. `beat` and `expired` are called from the thread, and not any more once this is destroyed.
  TimeLimit(std::chrono::milliseconds limit, std::function<void()> beat, std::function<void()> expired);
  ~TimeLimit();
  TimeLimit(const TimeLimit&) = delete;
  TimeLimit& operator=(const TimeLimit&) = delete;

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool done_ = false;
  std::thread thread_;
};

}  // namespace ddp::doctor
