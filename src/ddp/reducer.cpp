#include "ddp/reducer.h"

#include "core/error.h"

#include <algorithm>
#include <string>

namespace ddp {
namespace {

std::string name_of(const BucketPlan& plan, ParameterId id) {
  if (id == static_cast<ParameterId>(plan.parameter_counts.size())) return "the tail";
  return fmt::format("parameter {} ({} elements at {} of the flat buffer, bucket {})", id, plan.parameter_counts[id],
                     plan.parameter_offsets[id], plan.bucket_of(id));
}

std::vector<Part> summed_parts(const BucketPlan& plan, const Communicator& communicator, bool scatter) {
  if (scatter) return parts_of(plan, communicator.rank(), communicator.size());
  std::vector<Part> whole;
  for (const Bucket& bucket : plan.buckets) whole.push_back({bucket.offset, bucket.count, bucket.offset});
  return whole;
}

}  // namespace

Reducer::Reducer(const BucketPlan& plan, Communicator& communicator, std::span<float> flat, GradientWire wire)
    : plan_(plan),
      communicator_(communicator),
      flat_(flat),
      wire_(std::move(wire)),
      tail_rides_(wire_.dtype == DType::f32 && !wire_.scatter),
      summed_(summed_parts(plan, communicator, wire_.scatter)),
      announced_(plan.parameter_counts.size() + 1, char{1}),
      missing_(plan.buckets.size() + (tail_rides_ ? 0 : 1)),
      sequence_(missing_.size()),
      launched_(collectives()) {
  DDP_EXPECT(std::ssize(flat) == plan.total);
  DDP_EXPECT(wire_.dtype == DType::f32 || (wire_.shadow && wire_.to_shadow && wire_.from_shadow));
}

void Reducer::begin() {
  std::fill(announced_.begin(), announced_.end(), char{0});
  std::fill(missing_.begin(), missing_.end(), 0);
  for (size_t b = 0; b < plan_.buckets.size(); ++b) missing_[b] = plan_.buckets[b].end - plan_.buckets[b].first;
  ++missing_.back();  // the tail
  launched_ = 0;
}

ParameterId Reducer::tail() const { return static_cast<ParameterId>(plan_.parameter_counts.size()); }

void Reducer::ready(ParameterId id) {
  DDP_EXPECT(id >= 0 && id <= tail());
  if (announced_[id]) [[unlikely]]
    fail(Exit::internal, "{} was announced twice in one step", name_of(plan_, id));
  announced_[id] = 1;
  --missing_[id == tail() ? missing_.size() - 1 : plan_.bucket_of(id)];
  launch_ready();
}

void Reducer::launch_ready() {
  for (; launched_ < collectives() && missing_[launched_] == 0; ++launched_) {
    const auto launch = [this] { sequence_[launched_] = start(launched_); };
    const bool bucket = launched_ < std::ssize(plan_.buckets);
    if (around_launch_ && bucket)
      around_launch_(launched_, launch);
    else
      launch();
  }
}

Communicator::Sequence Reducer::start(int b) {
  if (b == std::ssize(plan_.buckets)) return communicator_.all_reduce(DeviceSpan::of(flat_.subspan(plan_.padded)));
  const auto [offset, count, first, end] = plan_.buckets[b];
  if (tail_rides_) {
    const bool last = b + 1 == std::ssize(plan_.buckets);
    return communicator_.all_reduce(DeviceSpan::of(flat_.subspan(offset, count + (last ? plan_.tail() : 0))));
  }
  DeviceSpan span = DeviceSpan::of(flat_.subspan(offset, count));
  if (wire_.dtype == DType::bf16) {
    wire_.to_shadow(offset, count);
    span = {static_cast<uint16_t*>(wire_.shadow) + offset, count, DType::bf16};
  }
  return wire_.scatter ? communicator_.reduce_scatter(span) : communicator_.all_reduce(span);
}

void Reducer::run_alone(int collective) { communicator_.wait(start(collective)); }

void Reducer::finish() {
  const auto never = std::find(announced_.begin(), announced_.end(), 0);
  if (never != announced_.end()) [[unlikely]]
    fail(Exit::internal, "{} was never announced in this step",
         name_of(plan_, static_cast<ParameterId>(never - announced_.begin())));
  if (wire_.dtype == DType::bf16)
    for (size_t b = 0; b < summed_.size(); ++b) {
      communicator_.wait(sequence_[b]);
      wire_.from_shadow(summed_[b].begin, summed_[b].count);
    }
  communicator_.wait(sequence_.back());
}

}  // namespace ddp
