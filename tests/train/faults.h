// Planted faults that the invariance tests must catch.
#pragma once

#include "tests/comm/forwarding_communicator.h"

#include <functional>
#include <memory>
#include <utility>

namespace ddp::testing {

// Calls a hook before each all_reduce; if the hook returns false, it skips the all_reduce.
class FaultyCommunicator final : public ForwardingCommunicator {
 public:
  using Hook = std::function<bool(DeviceSpan)>;
  FaultyCommunicator(Communicator& inner, Hook hook) : ForwardingCommunicator(inner), hook_(std::move(hook)) {}

  Sequence all_reduce(DeviceSpan span) override { return hook_(span) ? last_ = inner_.all_reduce(span) : last_; }

 private:
  Hook hook_;
  Sequence last_ = 0;
};

// Later device work does not wait for its collectives.
class NoWaitCommunicator final : public ForwardingCommunicator {
 public:
  explicit NoWaitCommunicator(Communicator& inner) : ForwardingCommunicator(inner) {}
  explicit NoWaitCommunicator(std::unique_ptr<Communicator> inner)
      : ForwardingCommunicator(*inner), owned_(std::move(inner)) {}

  void wait(Sequence) override {}

 private:
  const std::unique_ptr<Communicator> owned_;
};

// The same fault in the communicators that it is split into, such as that of the batch norms.
class NoWaitInParts final : public ForwardingCommunicator {
 public:
  using ForwardingCommunicator::ForwardingCommunicator;
  std::unique_ptr<Communicator> split(int colour) override {
    return std::make_unique<NoWaitCommunicator>(inner_.split(colour));
  }
};

}  // namespace ddp::testing
