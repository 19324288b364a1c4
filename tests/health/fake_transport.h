// A communicator whose counters and failures a test sets.
#pragma once

#include "comm/communicator.h"

#include <atomic>
#include <memory>
#include <optional>
#include <string>

namespace ddp::testing {

class FakeTransport final : public Communicator {
 public:
  int rank() const override { return 1; }
  int size() const override { return 2; }
  Sequence all_reduce(DeviceSpan) override { return 0; }
  Sequence reduce_scatter(DeviceSpan) override { return 0; }
  Sequence all_gather(DeviceSpan) override { return 0; }
  Sequence broadcast(DeviceSpan, int) override { return 0; }
  void wait(Sequence) override {}
  void progress() override {}
  void all_reduce_host(std::span<double>) override {}
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

}  // namespace ddp::testing
