#include "comm/staged.h"

#include "comm/collective.h"
#include "core/error.h"
#include "device/buffer.h"

#include <sched.h>

#include <deque>
#include <map>
#include <utility>

namespace ddp {
namespace {

// A collective passes four states; each state keeps the order of the starts:
//   started    the copy to the host is issued, with a fence behind it
//   launched   the fence is passed; the host collective has begun on the copy
//   done       the host collective has completed
//   returned   the copy back to the device is issued
// Each span keeps one staging buffer. The next step may issue its copy into the buffer before the copy back from it has
// run: the device runs both in the order of issue. The host touches the buffer only after the fence behind the copy
// into it, so the earlier copy back has run too.
//
// Staged communicators of one device may share fences: a fence that is set again is passed later, never too early.
class StagedCommunicator final : public Communicator {
 public:
  StagedCommunicator(Device& device, Communicator& host, std::unique_ptr<Communicator> owned_host, int fences)
      : device_(device), host_(host), owned_host_(std::move(owned_host)), fences_(fences) {
    DDP_EXPECT(fences >= 0 && fences + kStagedFences <= Device::kFences);
  }
  ~StagedCommunicator() override { device_.quiesce(); }  // copies may still use the staging buffers

  int rank() const override { return host_.rank(); }
  int size() const override { return host_.size(); }

  Sequence all_reduce(DeviceSpan span) override { return start({Collective::Kind::all_reduce, span}); }
  Sequence reduce_scatter(DeviceSpan span) override {
    DDP_EXPECT(span.count % size() == 0);
    return start({Collective::Kind::reduce_scatter, span});
  }
  Sequence all_gather(DeviceSpan span) override {
    DDP_EXPECT(span.count % size() == 0);
    return start({Collective::Kind::all_gather, span});
  }
  Sequence broadcast(DeviceSpan span, int root) override { return start({Collective::Kind::broadcast, span, root}); }

  bool copies() const override { return true; }
  std::string description() const override { return host_.description(); }
  std::string order_of_terms() const override { return host_.order_of_terms(); }
  bool sums_in_int8() const override { return host_.sums_in_int8(); }
  HostPlace place() const override { return host_.place(); }
  void wait(Sequence n) override {
    DDP_EXPECT(n <= started_);
    if (n <= returned_) return;
    for (progress(); launched_ < n; progress()) sched_yield();
    host_.wait(at(n).host);
    for (; returned_ < n; ++returned_) {
      const Stage& stage = stages_.front();
      if (const size_t bytes = bytes_of(stage.collective.span))
        device_.upload(stage.collective.span.data, stage.copy, bytes);
      stages_.pop_front();
    }
  }
  void progress() override {
    while (launched_ < started_ && device_.passed(fence_of(launched_ + 1))) launch();
    host_.progress();
  }

  Sequence completed() const override { return host_.completed(); }
  void record_done_times() override { host_.record_done_times(); }
  std::optional<int64_t> done_ns(Sequence n) const override { return host_.done_ns(n); }
  std::optional<std::string> failure() const override { return host_.failure(); }

  void all_reduce_host(std::span<double> values) override { host_.all_reduce_host(values); }
  void barrier() override { host_.barrier(); }

  std::unique_ptr<Communicator> split(int colour) override {
    auto part = host_.split(colour);
    Communicator& host = *part;
    return std::make_unique<StagedCommunicator>(device_, host, std::move(part), fences_ + kStagedFences);
  }

 private:
  struct Stage {
    Collective collective;  // its span is device memory
    void* copy = nullptr;   // staging buffer on the host
    Sequence host = 0;      // number of the host collective, once launched
  };

  static size_t bytes_of(const DeviceSpan& span) { return static_cast<size_t>(span.count) * size_of(span.dtype); }
  Stage& at(Sequence n) { return stages_[n - returned_ - 1]; }
  int fence_of(Sequence n) const { return fences_ + static_cast<int>(n % kStagedFences); }

  Sequence start(const Collective& collective) {
    wait_for_overlapping(collective.span);
    if (started_ - launched_ == kStagedFences) {
      device_.await(fence_of(launched_ + 1));
      launch();
    }
    const size_t bytes = bytes_of(collective.span);
    Stage& stage = stages_.emplace_back(Stage{collective, staging_buffer(collective.span.data, bytes), 0});
    if (bytes > 0) device_.download(stage.copy, collective.span.data, bytes);
    device_.fence(fence_of(++started_));
    progress();
    return started_;
  }

  void launch() {
    Stage& stage = at(++launched_);
    DeviceSpan span = stage.collective.span;
    span.data = stage.copy;
    switch (stage.collective.kind) {
      case Collective::Kind::all_reduce: stage.host = host_.all_reduce(span); break;
      case Collective::Kind::reduce_scatter: stage.host = host_.reduce_scatter(span); break;
      case Collective::Kind::all_gather: stage.host = host_.all_gather(span); break;
      case Collective::Kind::broadcast: stage.host = host_.broadcast(span, stage.collective.root); break;
    }
  }

  // A collective reads the results of all earlier collectives on its span.
  void wait_for_overlapping(const DeviceSpan& span) {
    const auto* const begin = static_cast<const char*>(span.data);
    const auto* const end = begin + bytes_of(span);
    Sequence last = returned_;
    for (Sequence n = returned_ + 1; n <= started_; ++n) {
      const auto* const other = static_cast<const char*>(at(n).collective.span.data);
      if (begin < other + bytes_of(at(n).collective.span) && other < end) last = n;
    }
    wait(last);
  }

  void* staging_buffer(void* data, size_t bytes) {
    if (bytes == 0) return nullptr;
    const auto [found, added] = copies_.try_emplace({data, bytes});
    if (added) found->second = Buffer(device_.host_memory(), bytes);
    return found->second.data();
  }

  Device& device_;
  Communicator& host_;
  const std::unique_ptr<Communicator> owned_host_;     // host_, if split() made this communicator; else null
  const int fences_;                                   // first fence slot
  std::map<std::pair<void*, size_t>, Buffer> copies_;  // staging buffers by span; every step uses the same spans
  std::deque<Stage> stages_;                           // the first is collective returned_ + 1
  Sequence started_ = 0, launched_ = 0, returned_ = 0;
};

}  // namespace

std::unique_ptr<Communicator> make_staged_communicator(Device& device, Communicator& host, int fences) {
  return std::make_unique<StagedCommunicator>(device, host, nullptr, fences);
}

}  // namespace ddp
