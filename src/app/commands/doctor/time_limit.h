// A time limit for work that may hang. A thread calls `beat` ten times a second, and `expired`, which may end the
// process, once when the time is up. Time during which this process was stopped does not count, since another rank
// reports it.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace ddp::doctor {

class TimeLimit {
 public:
  // `limit` 0: no limit. `beat`: null: nothing to call. The destructor joins the thread: no callback comes after it.
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
