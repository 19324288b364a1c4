#include "comm/casting_communicator.h"

#include "core/error.h"

#include <utility>
#include <vector>

namespace ddp {
namespace {

class CastingCommunicator final : public Communicator {
 public:
  CastingCommunicator(Communicator& inner, GradientCast cast) : inner_(inner), cast_(std::move(cast)) {
    DDP_EXPECT(cast_.comm_buffer && cast_.cast_to_comm && cast_.cast_from_comm);
    pending_.reserve(kReserved);
  }

  Sequence all_reduce(DeviceSpan span) override {
    if (!is_gradient(span)) return inner_.all_reduce(span);
    return remember(span, 0, span.count, inner_.all_reduce(cast(span)));
  }
  Sequence reduce_scatter(DeviceSpan span) override {
    if (!is_gradient(span)) return inner_.reduce_scatter(span);
    const int64_t part = span.count / size();
    return remember(span, rank() * part, part, inner_.reduce_scatter(cast(span)));
  }

  void wait(Sequence n) override {
    auto done = pending_.begin();
    for (; done != pending_.end() && done->sequence <= n; ++done) {
      inner_.wait(done->sequence);
      cast_.cast_from_comm(done->offset, done->count);
    }
    pending_.erase(pending_.begin(), done);
    inner_.wait(n);
  }

  int rank() const override { return inner_.rank(); }
  int size() const override { return inner_.size(); }
  Sequence all_gather(DeviceSpan span) override { return inner_.all_gather(span); }
  Sequence broadcast(DeviceSpan span, int root) override { return inner_.broadcast(span, root); }
  void progress() override { inner_.progress(); }
  Memory* memory() override { return inner_.memory(); }
  std::string description() const override { return inner_.description(); }
  std::string order_of_terms() const override { return inner_.order_of_terms(); }
  bool capturable() const override { return inner_.capturable(); }
  Sequence completed() const override { return inner_.completed(); }
  void record_done_times() override { inner_.record_done_times(); }
  std::optional<int64_t> done_ns(Sequence n) const override { return inner_.done_ns(n); }
  bool done_on_device_clock() const override { return inner_.done_on_device_clock(); }
  std::optional<std::string> failure() const override { return inner_.failure(); }
  void all_reduce_host(std::span<double> values) override { inner_.all_reduce_host(values); }
  void barrier() override { inner_.barrier(); }
  std::unique_ptr<Communicator> split(int colour) override { return inner_.split(colour); }

 private:
  static constexpr size_t kReserved = 256;  // collectives, so that a step does not allocate

  // Elements to cast back after the wait for their collective.
  struct CastBack {
    Sequence sequence;
    int64_t offset, count;
  };

  bool is_gradient(const DeviceSpan& span) const {
    const float *const data = static_cast<const float*>(span.data), *const begin = cast_.gradients.data();
    if (span.dtype != DType::f32 || data < begin || data >= begin + cast_.gradients.size()) return false;
    DDP_EXPECT(data + span.count <= begin + cast_.gradients.size());
    return true;
  }
  int64_t offset_of(const DeviceSpan& span) const { return static_cast<float*>(span.data) - cast_.gradients.data(); }

  DeviceSpan cast(const DeviceSpan& span) {
    cast_.cast_to_comm(offset_of(span), span.count);
    return {cast_.comm_buffer + offset_of(span), span.count, DType::bf16};
  }
  Sequence remember(const DeviceSpan& span, int64_t from, int64_t count, Sequence sequence) {
    pending_.push_back({sequence, offset_of(span) + from, count});
    return sequence;
  }

  Communicator& inner_;
  const GradientCast cast_;
  std::vector<CastBack> pending_;  // in start order; keeps its memory from step to step
};

}  // namespace

std::unique_ptr<Communicator> make_casting_communicator(Communicator& inner, GradientCast cast) {
  return std::make_unique<CastingCommunicator>(inner, std::move(cast));
}

}  // namespace ddp
