// Planted faults that the invariance tests must catch.
#pragma once

#include "comm/communicator.h"

#include <functional>
#include <utility>

namespace ddp::testing {

// A communicator decorator. It calls a hook before each all_reduce; if the hook returns false, it skips the all_reduce.
class FaultyCommunicator : public Communicator {
 public:
  using Hook = std::function<bool(DeviceSpan)>;
  FaultyCommunicator(Communicator& inner, Hook hook) : inner_(inner), hook_(std::move(hook)) {}

  int rank() const override { return inner_.rank(); }
  int size() const override { return inner_.size(); }
  Sequence all_reduce(DeviceSpan span) override { return hook_(span) ? last_ = inner_.all_reduce(span) : last_; }
  Sequence reduce_scatter(DeviceSpan span) override { return inner_.reduce_scatter(span); }
  Sequence all_gather(DeviceSpan span) override { return inner_.all_gather(span); }
  Sequence broadcast(DeviceSpan span, int root) override { return inner_.broadcast(span, root); }
  void wait(Sequence n) override { inner_.wait(n); }
  Sequence completed() const override { return inner_.completed(); }
  std::optional<std::string> failure() const override { return inner_.failure(); }
  bool capturable() const override { return inner_.capturable(); }
  Memory* memory() override { return inner_.memory(); }
  void progress() override { inner_.progress(); }
  void all_reduce_host(std::span<double> values) override { inner_.all_reduce_host(values); }
  void barrier() override { inner_.barrier(); }
  std::unique_ptr<Communicator> split(int colour) override { return inner_.split(colour); }

 private:
  Communicator& inner_;
  Hook hook_;
  Sequence last_ = 0;
};

}  // namespace ddp::testing
