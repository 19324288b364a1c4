// Measures the cost of ticket, heartbeat table and watchdog in a LeNet step on one rank. The results are ratios of
// times that were taken in alternation.
#include "comm/local/communicator.h"
#include "comm/local/heartbeat_table.h"
#include "core/stopwatch.h"
#include "device/cpu/device.h"
#include "health/watchdog.h"
#include "nn/models.h"
#include "ops/cpu/ops.h"
#include "tests/bench/median.h"
#include "tests/train/fixture.h"
#include "tests/train/small.h"

#include <fmt/format.h>

#include <chrono>
#include <optional>
#include <vector>

namespace ddp::testing {
namespace {

constexpr int kSteps = 25, kPairs = 41;  // a pair is twice kSteps steps: with and without

void run() {
  const ImageShape grey{28, 28, 1};
  const MemoryDataset data = small_data(12800, grey);
  const auto device = make_cpu_device();
  const auto ops = make_cpu_ops(*device, {});
  auto world = make_local_communicators(1);
  Fixture fixture({.batch_size = 128}, make_model("lenet", grey, 4), data, *device, *ops, *world[0]);
  Replica& r = fixture.replica;
  DeviceDataset on_device(*device, data, fixture.largest(), {});
  Prefetcher prefetcher(on_device, fixture.sampler(), 0, 2 * kPairs * kSteps, kTrainingFences);
  const NextBatch next = [&]() -> const DeviceBatch& { return prefetcher.next(); };

  const auto tables = make_local_heartbeat_tables(1);
  const auto block = [&](bool watched) {
    std::optional<PhaseTracker> phases;
    std::optional<Watchdog> watchdog;
    if (watched) watchdog.emplace(WatchdogLimits{}, phases.emplace(*tables[0]), [](const std::string&) {});
    Step step(r, {}, watched ? &*phases : nullptr);
    const Stopwatch watch;
    for (int i = 0; i < kSteps; ++i) step.run(next, 0.01);
    step.drain();
    return watch.milliseconds() / kSteps;
  };
  const auto ticket = [&] {
    const TicketLayout& layout = r.layout.ticket_layout;
    std::vector<float> slots(layout.elements());
    const Stopwatch watch;
    for (int i = 0; i < kSteps; ++i) {
      write_ticket(slots, layout, 0, 128, i);
      for (size_t b = 0; b < r.plan.buckets.size(); ++b) {
        const Bucket& bucket = r.plan.buckets[b];
        r.gradient_scan->run({.gradients = r.gradients(), .begin = bucket.offset, .count = bucket.count},
                             slots.data() + layout.bad(0), slots.data() + TicketLayout::kSquares, Gradient::add);
      }
      const Ticket read = read_ticket(slots, {1});
      check_agreement(read, i, 128);
    }
    return watch.milliseconds() / kSteps;
  };
  std::vector<double> steps, ratios, tickets;
  for (int pair = 0; pair < kPairs; ++pair) {
    const bool first = pair % 2 == 0;
    const double a = block(first), b = block(!first), watched = first ? a : b, plain = first ? b : a;
    steps.push_back(plain);
    ratios.push_back(watched / plain);
    tickets.push_back(ticket() / plain);
  }
  fmt::print("a step of LeNet at batch 128: {:.2f} ms, median of {} pairs\n", median(steps), kPairs);
  fmt::print("with heartbeat table and watchdog: {:.4f} times that\n", median(ratios));
  fmt::print("ticket and search for NaN: {:.2f} % of a step\n", 100 * median(tickets));
}

}  // namespace
}  // namespace ddp::testing

int main() { ddp::testing::run(); }
