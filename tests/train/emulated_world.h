// Ranks with an emulated GPU each. They take turns, so that the emulator's seed alone decides what happens.
#pragma once

#include "comm/local/communicator.h"
#include "comm/nccl/communicator.h"
#include "comm/staged.h"
#include "core/error.h"
#include "device/cuda/device.h"
#include "ops/cuda/ops.h"
#include "tests/comm/forwarding_communicator.h"
#include "train/step/fences.h"

#include <emulator/emulator.h>

#include <algorithm>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <ostream>
#include <span>
#include <vector>

namespace ddp::testing {

struct GpuWorld {
  const char* name;
  int size;
  bool nccl, graphs, resident;
  Precision precision = Precision::fp32;
  size_t device_data_bytes() const { return resident ? size_t{1} << 30 : 0; }
};

inline void PrintTo(const GpuWorld& world, std::ostream* out) { *out << world.name; }

// A local communicator that passes the turn where it waits for other ranks.
class TurnsCommunicator final : public ForwardingCommunicator {
 public:
  struct World {
    explicit World(int size) : ranks(make_local_communicators(size)), posts(size) {}
    const std::vector<std::unique_ptr<Communicator>> ranks;
    std::vector<std::span<const double>> posts;
    int64_t arrived = 0;
    bool left = false;
    std::shared_ptr<World> part;
  };
  TurnsCommunicator(std::shared_ptr<World> world, int rank)
      : ForwardingCommunicator(*world->ranks[rank]), world_(std::move(world)) {}
  ~TurnsCommunicator() override { world_->left = true; }

  void wait(Sequence n) override {
    emulator::wait_until([&] { return inner_.completed() >= n || world_->left; });
    if (inner_.completed() < n) fail(Exit::internal, "a rank has left before collective {}", n);
  }
  void all_reduce_host(std::span<double> values) override {
    world_->posts[rank()] = values;
    barrier();
    std::vector<double> sums(values.size());
    for (const auto& post : world_->posts)
      for (size_t i = 0; i < sums.size(); ++i) sums[i] += post[i];
    barrier();
    std::ranges::copy(sums, values.begin());
  }
  void barrier() override {
    const int64_t all = ++barriers_ * size();
    ++world_->arrived;
    emulator::wait_until([&] { return world_->arrived >= all || world_->left; });
    if (world_->arrived < all) fail(Exit::internal, "a rank has left before barrier {}", barriers_);
  }
  std::unique_ptr<Communicator> split(int) override {  // all ranks are in one part
    if (!world_->part) world_->part = std::make_shared<World>(size());
    const auto part = world_->part;
    barrier();
    world_->part = nullptr;
    barrier();
    return std::make_unique<TurnsCommunicator>(part, rank());
  }

 private:
  const std::shared_ptr<World> world_;
  int64_t barriers_ = 0;
};

// Runs `work` on each rank. Rethrows the exception of the lowest rank that failed. The seed decides whether launches
// are programmatic, which changes no result.
inline void on_gpus(const GpuWorld& world, const std::function<void(Communicator&, Device&, Ops&)>& work) {
  const auto hosts = std::make_shared<TurnsCommunicator::World>(world.size);
  std::vector<std::exception_ptr> thrown(world.size);
  const bool programmatic = emulator::draw() % 2 == 1;
  emulator::run_in_turns(world.size, [&](int rank) {
    TurnsCommunicator host(hosts, rank);
    try {
      const auto device = make_cuda_device({.index = 0, .graphs = world.graphs, .programmatic = programmatic});
      const auto ops = make_cuda_ops(*device, {.precision = world.precision, .deterministic = true});
      const auto communicator = world.nccl ? make_nccl_communicator(*device, host, {})
                                           : make_staged_communicator(*device, host, kTransportFences);
      work(*communicator, *device, *ops);
    } catch (...) {
      thrown[rank] = std::current_exception();
    }
  });
  for (const std::exception_ptr& e : thrown)
    if (e) std::rethrow_exception(e);
}

}  // namespace ddp::testing
