// The steady clock of a test program that has test_clock.cpp among its sources. While a TestClock lives, this clock
// stands still at one second, and pass() moves it; else it is the real one. There is one TestClock at a time. While it
// lives, a wait with a limit returns at once, and its limit has not passed.
#pragma once

#include <chrono>
#include <cstdint>

namespace ddp::testing {

class TestClock {
 public:
  TestClock();
  ~TestClock();
  TestClock(const TestClock&) = delete;
  TestClock& operator=(const TestClock&) = delete;

  void pass(std::chrono::nanoseconds time);
  int64_t reads() const;  // of this clock, by all threads
};

}  // namespace ddp::testing
