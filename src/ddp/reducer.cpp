#include "ddp/reducer.h"

#include "core/error.h"

#include <algorithm>
#include <string>

namespace ddp {
namespace {

std::string name_of(const BucketPlan& plan, ParameterId id) {
  if (id == static_cast<ParameterId>(plan.parameter_counts.size())) return "the ticket";
  return fmt::format("parameter {} ({} elements at {} of the flat buffer, bucket {})", id, plan.parameter_counts[id],
                     plan.parameter_offsets[id], plan.bucket_of(id));
}

}  // namespace

Reducer::Reducer(const BucketPlan& plan, Communicator& communicator, std::span<float> flat)
    : plan_(plan),
      communicator_(communicator),
      flat_(flat),
      announced_(plan.parameter_counts.size() + 1, char{1}),
      missing_(plan.buckets.size()),
      launched_(static_cast<int>(plan.buckets.size())) {
  DDP_EXPECT(std::ssize(flat) == plan.total);
}

void Reducer::begin() {
  std::fill(announced_.begin(), announced_.end(), char{0});
  for (size_t b = 0; b < missing_.size(); ++b) missing_[b] = plan_.buckets[b].end - plan_.buckets[b].first;
  ++missing_.back();  // the ticket
  launched_ = 0;
}

ParameterId Reducer::ticket() const { return static_cast<ParameterId>(plan_.parameter_counts.size()); }

void Reducer::ready(ParameterId id) {
  DDP_EXPECT(id >= 0 && id <= ticket());
  if (announced_[id]) [[unlikely]]
    fail(Exit::internal, "{} was announced twice in one step", name_of(plan_, id));
  announced_[id] = 1;
  --missing_[id == ticket() ? missing_.size() - 1 : plan_.bucket_of(id)];
  launch_ready();
}

void Reducer::launch_ready() {
  for (; launched_ < std::ssize(missing_) && missing_[launched_] == 0; ++launched_) {
    const Bucket& bucket = plan_.buckets[launched_];
    const auto launch = [&] { last_ = communicator_.sum(WireSpan::of(flat_.subspan(bucket.offset, bucket.count))); };
    around_launch_ ? around_launch_(launched_, launch) : launch();
  }
}

void Reducer::finish() {
  const auto never = std::find(announced_.begin(), announced_.end(), 0);
  if (never != announced_.end()) [[unlikely]]
    fail(Exit::internal, "{} was never announced in this step",
         name_of(plan_, static_cast<ParameterId>(never - announced_.begin())));
  communicator_.wait(last_);
}

}  // namespace ddp
