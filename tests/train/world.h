// Trains with ranks as threads on the reference ops, and returns the results to compare.
#pragma once

#include "device/cpu/device.h"
#include "tests/comm/ranks.h"
#include "tests/ops/reference/ops.h"
#include "tests/train/fixture.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace ddp::testing {

using MakeOps = std::function<std::unique_ptr<Ops>(Device&)>;

// Runs `work` in one thread per rank; each has its own device, ops and communicator.
inline void run_world(int size, const std::function<void(Communicator&, Device&, Ops&)>& work,
                      const MakeOps& make_ops = make_reference_ops) {
  run_ranks(size, [&](Communicator& communicator) {
    const auto device = make_cpu_device();
    const auto ops = make_ops(*device);
    work(communicator, *device, *ops);
  });
}

// The state of rank 0 after the last step.
struct Result {
  std::vector<double> losses;
  std::vector<float> gradients, weights, state;
};

// Runs the steps 0 to `steps` - 1 on one rank.
inline Result train(const FixtureConfig& config, const Network& network, const Dataset& data, int64_t steps,
                    Communicator& communicator, Device& device, Ops& ops) {
  Fixture fixture(config, network, data, device, ops, communicator);
  const auto losses = fixture.losses(0, steps);
  const Replica& r = fixture.replica;
  r.check_replicas();
  return {losses, download_gradients(r), r.download_weights(), r.download_stats(r.running_stats())};
}

inline Result train_world(int size, const FixtureConfig& config, const Network& network, const Dataset& data,
                          int64_t steps, const MakeOps& make_ops = make_reference_ops) {
  Result result;
  run_world(
      size,
      [&](Communicator& c, Device& device, Ops& ops) {
        const Result mine = train(config, network, data, steps, c, device, ops);
        if (c.rank() == 0) result = mine;
      },
      make_ops);
  return result;
}

}  // namespace ddp::testing
