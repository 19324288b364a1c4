// A decorator of a communicator that passes all calls on. Base of decorators that change some of them.
#pragma once

#include "comm/communicator.h"

namespace ddp {

class ForwardingCommunicator : public Communicator {
 public:
  explicit ForwardingCommunicator(Communicator& inner) : inner_(inner) {}

  int rank() const override { return inner_.rank(); }
  int size() const override { return inner_.size(); }
  Sequence all_reduce(DeviceSpan span) override { return inner_.all_reduce(span); }
  Sequence reduce_scatter(DeviceSpan span) override { return inner_.reduce_scatter(span); }
  Sequence all_gather(DeviceSpan span) override { return inner_.all_gather(span); }
  Sequence broadcast(DeviceSpan span, int root) override { return inner_.broadcast(span, root); }
  bool copies() const override { return inner_.copies(); }
  bool sums_in_int8() const override { return inner_.sums_in_int8(); }
  HostPlace place() const override { return inner_.place(); }
  void wait(Sequence n) override { inner_.wait(n); }
  Sequence completed() const override { return inner_.completed(); }
  std::optional<std::string> failure() const override { return inner_.failure(); }
  void record_done_times() override { inner_.record_done_times(); }
  std::optional<int64_t> done_ns(Sequence n) const override { return inner_.done_ns(n); }
  bool done_on_device_clock() const override { return inner_.done_on_device_clock(); }
  bool capturable() const override { return inner_.capturable(); }
  Memory* memory() override { return inner_.memory(); }
  void progress() override { inner_.progress(); }
  void all_reduce_host(std::span<double> values) override { inner_.all_reduce_host(values); }
  void barrier() override { inner_.barrier(); }
  std::unique_ptr<Communicator> split(int colour) override { return inner_.split(colour); }

 protected:
  Communicator& inner_;
};

}  // namespace ddp
