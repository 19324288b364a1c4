// An error ends the training while the device still works.
#include "core/error.h"
#include "device/cuda/handles.h"
#include "tests/train/emulated_world.h"
#include "tests/train/trainer.h"

#include <gtest/gtest.h>

#include <string>

namespace ddp::testing {
namespace {

// The work that the device hangs in goes on when the error is said. The emulator ends a program that waits for ever.
TEST(EmulatedErrors, AreSaidBeforeAnythingWaitsForTheDevice) {
  std::string said;
  on_gpus({"one", 1, true, true, false}, [&](Communicator& c, Device& device, Ops& ops) {
    const Datasets data{.train = std::make_unique<MemoryDataset>(small_data(16)), .test = nullptr};
    const Samplers samplers{
        .train = DistributedSampler(16, 4, Order::shuffled, 0, 0, {1.0}), .test = {}, .statistics = {}};
    Replica replica(small_network(), {.batch_sizes = samplers.batch_sizes()}, device, ops, c);
    TrainConfig config;
    config.eval_every = 0;
    config.batch_source = [&](NextBatch next) -> NextBatch {
      return [&, next, taken = 0]() mutable -> const DeviceBatch& {
        if (++taken < 3) return next();
        emulator::enqueue(
            compute_stream(device), [] {}, [&] { return !said.empty(); });
        fail(Exit::data, "planted");
      };
    };
    const auto say = [&] {
      try {
        throw;
      } catch (const Error& error) {
        said = error.what();
      }
    };
    const auto tables = make_local_heartbeat_tables(1);
    PhaseTracker phases(*tables[0]);
    EventList events;
    EXPECT_THROW(train(config, replica, data, samplers, {.reporter = events, .phases = phases, .on_error = say}),
                 Error);
  });
  EXPECT_EQ(said, "planted");
}

}  // namespace
}  // namespace ddp::testing
