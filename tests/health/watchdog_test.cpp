// The thread of the watchdog. fault_finder_test.cpp has the faults.
#include "health/watchdog.h"

#include "comm/local/heartbeat_table.h"
#include "tests/health/fake_transport.h"
#include "tests/text.h"

#include <gtest/gtest.h>

#include <future>
#include <string>
#include <thread>

namespace ddp::testing {
namespace {

using namespace std::chrono_literals;

TEST(Watchdog, ReportsAFailureOfAMonitoredTransport) {
  const auto tables = make_local_heartbeat_tables(1, {"a"});
  PhaseTracker phases(*tables[0]);
  std::promise<std::string> report;
  Watchdog watchdog({.step = 0s}, phases, [&](const std::string& text) { report.set_value(text); });  // once: or throws
  {
    FakeTransport gone;
    const auto monitoring = watchdog.monitor(gone, &gone, 3, 2);
  }
  FakeTransport transport;
  const auto monitoring = watchdog.monitor(transport, nullptr, 3, 2);
  EXPECT_TRUE(all_run(watchdog.ranks()));
  transport.broken = true;
  EXPECT_HAS(report.get_future().get(), "rank 0 on host a has been in start-up for ");
}

TEST(Watchdog, EndsWithoutAReport) {
  const auto tables = make_local_heartbeat_tables(1, {"a"});
  PhaseTracker phases(*tables[0]);
  const Watchdog watchdog({.step = 0s}, phases, [](const std::string& text) { ADD_FAILURE() << text; });
  const int64_t before = tables[0]->read(0).alive_ns;
  while (tables[0]->read(0).alive_ns == before) std::this_thread::yield();  // it checks
}

}  // namespace
}  // namespace ddp::testing
