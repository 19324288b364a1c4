// The watchdog over a communicator that says what the test wants.
#include "train/watchdog.h"

#include "core/error.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>

namespace ddp::testing {
namespace {

using namespace std::chrono_literals;

class FakeTransport final : public Communicator {
 public:
  int rank() const override { return 1; }
  int size() const override { return 2; }
  Sequence sum(WireSpan) override { return 0; }
  Sequence reduce_scatter(WireSpan) override { return 0; }
  Sequence all_gather(WireSpan) override { return 0; }
  Sequence broadcast(WireSpan, int) override { return 0; }
  void wait(Sequence) override {}
  void progress() override {}
  void sum_host(std::span<double>) override {}
  void barrier() override {}
  std::unique_ptr<Communicator> split(int) override { return nullptr; }
  Sequence completed() const override { return done; }
  std::optional<std::string> failure() const override {
    return broken ? std::optional<std::string>("remote process exited; NCCL's last error: socket closed")
                  : std::nullopt;
  }

  std::atomic<Sequence> done = 100;
  std::atomic<bool> broken = false;
};

class WatchdogTest : public ::testing::Test {
 protected:
  WatchdogConfig config(std::chrono::milliseconds limit) {
    return {limit, 3, 2, [this](const std::string& text) {
              ++calls;
              said.set_value(text);
            }};
  }
  std::string text() {
    auto future = said.get_future();
    return future.wait_for(20s) == std::future_status::ready ? future.get() : "nothing was said";
  }

  FakeTransport transport;
  std::promise<std::string> said;
  std::atomic<int> calls = 0;
};

TEST_F(WatchdogTest, NamesTheStepAndTheBucketThatIsAwaited) {
  Watchdog watchdog(config(250ms), transport);
  watchdog.started(17);
  watchdog.started(18);
  transport.done += 5;
  watchdog.ended(17);
  watchdog.started(19);
  transport.done += 1;
  const std::string told = text();
  EXPECT_NE(told.find("step 18 "), told.npos) << told;
  EXPECT_NE(told.find("bucket 1 of 3"), told.npos) << told;
  EXPECT_NE(told.find("--step-timeout"), told.npos) << told;
}

TEST_F(WatchdogTest, TellsAHangBehindTheBuckets) {
  Watchdog watchdog(config(150ms), transport);
  watchdog.started(1);
  transport.done += 5;
  EXPECT_NE(text().find("all its collectives are done"), std::string::npos);
}

TEST_F(WatchdogTest, TellsWhatFollowsTheBucketsFromThem) {
  Watchdog watchdog(config(150ms), transport);
  watchdog.started(1);
  transport.done += 4;
  EXPECT_NE(text().find("collective 1 of 2 behind its buckets"), std::string::npos);
}

TEST_F(WatchdogTest, LooksForAFailureOfTheOtherCommunicatorToo) {
  FakeTransport other;
  Watchdog watchdog(config(0ms), transport, &other);
  watchdog.started(4);
  other.broken = true;
  EXPECT_NE(text().find("socket closed"), std::string::npos);
}

TEST_F(WatchdogTest, SaysWhyTheTransportFailed) {
  Watchdog watchdog(config(0ms), transport);
  watchdog.started(4);
  transport.broken = true;
  const std::string told = text();
  EXPECT_NE(told.find("step 4 "), told.npos) << told;
  EXPECT_NE(told.find("socket closed"), told.npos) << told;
}

TEST_F(WatchdogTest, IsQuietWhileStepsEndInTimeAndBetweenThem) {
  {
    Watchdog watchdog(config(300ms), transport);
    for (int64_t step = 1; step <= 5; ++step) {
      watchdog.started(step);
      std::this_thread::sleep_for(100ms);
      transport.done += 5;
      watchdog.ended(step);
    }
    std::this_thread::sleep_for(500ms);
  }
  EXPECT_EQ(calls, 0);
}

TEST_F(WatchdogTest, NamesOtherWork) {
  Watchdog watchdog(config(100ms), transport);
  watchdog.started(1);
  watchdog.ended(1);
  watchdog.started("the evaluation");
  EXPECT_NE(text().find("the evaluation has not ended"), std::string::npos);
}

TEST_F(WatchdogTest, SpeaksOnce) {
  {
    Watchdog watchdog(config(50ms), transport);
    watchdog.started(1);
    text();
    std::this_thread::sleep_for(300ms);
  }
  EXPECT_EQ(calls, 1);
}

}  // namespace
}  // namespace ddp::testing
