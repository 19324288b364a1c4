#include "app/commands/doctor/time_limit.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

namespace ddp::doctor {
namespace {

TEST(DoctorHang, TimeLimitExpiresOnceOrNever) {
  std::atomic<int> expired = 0, beats = 0;
  const auto limit = [&](std::chrono::milliseconds time) {
    return TimeLimit(
        time, [&] { ++beats; }, [&] { ++expired; });
  };
  {
    const TimeLimit short_one = limit(std::chrono::milliseconds(1));
    while (expired == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_EQ(expired, 1);
  EXPECT_GT(beats, 0);
  { const TimeLimit long_one = limit(std::chrono::hours(1)); }
  {
    const TimeLimit none = limit(std::chrono::milliseconds(0));
    const int before = beats;
    while (beats < before + 3) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_EQ(expired, 1);
}

}  // namespace
}  // namespace ddp::doctor
