// Which signals count as one request, by a test clock.
#include "health/signals.h"

#include "tests/test_clock.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

namespace ddp::testing {
namespace {

using namespace std::chrono_literals;

bool is_pending(int signal) {
  sigset_t pending;
  return sigpending(&pending) == 0 && sigismember(&pending, signal) == 1;
}

TEST(SignalRequests, OfOneSecondAreOne) {
  TestClock clock;
  std::atomic<int> dumps = 0;
  std::vector<std::string> ends;  // written by the signal thread before a dump
  Signals signals;
  signals.on_dump([&](int signal) { dumps += signal == SIGUSR2 ? 1 : 0; });
  signals.on_second_request([&](int, const std::string& line) { ends.push_back(line); });
  const auto send = [&](int signal) {
    ::kill(::getpid(), signal);
    while (is_pending(signal)) std::this_thread::yield();
    const int before = dumps;
    ::kill(::getpid(), SIGUSR2);  // the thread handles one signal after the other
    while (dumps == before) std::this_thread::yield();
  };
  EXPECT_FALSE(signals.stop_requested());
  send(SIGTERM);
  EXPECT_STREQ(signals.stop_signal(), "SIGTERM");
  send(SIGTERM);
  clock.pass(999'999'999ns);
  send(SIGINT);
  EXPECT_EQ(ends, std::vector<std::string>{});
  clock.pass(1ns);
  send(SIGINT);
  EXPECT_EQ(ends, std::vector<std::string>{"ended by a second SIGINT, without saving"});
  EXPECT_STREQ(signals.stop_signal(), "SIGTERM");
}

}  // namespace
}  // namespace ddp::testing
