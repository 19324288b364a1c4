#include "ddp/reducer.h"

#include "core/error.h"

#include <algorithm>
#include <string>

namespace ddp {
namespace {

std::string name_of(const BucketPlan& plan, ParameterId id) {
  return fmt::format("parameter {} ({} elements at {} of the flat buffer, bucket {})", id, plan.parameter_counts[id],
                     plan.parameter_offsets[id], plan.bucket_of(id));
}

}  // namespace

// All is announced until begin(), so that ready() outside of a step fails.
Reducer::Reducer(const BucketPlan& plan, Communicator& communicator, std::span<float> flat, const ReducerConfig& config)
    : plan_(plan),
      communicator_(communicator),
      flat_(flat),
      config_{config.sharded, config.trailer_in_last_bucket && !config.sharded && !config.residual, config.residual},
      announced_(plan.parameter_counts.size() + 1, char{1}) {
  DDP_EXPECT(std::ssize(flat) == plan.total);
  buckets_changed();
}

void Reducer::buckets_changed() {
  pending_.assign(plan_.buckets.size() + (config_.trailer_in_last_bucket ? 0 : 1), 0);
  launched_ = collectives();
}

void Reducer::begin() {
  std::fill(announced_.begin(), announced_.end(), char{0});
  std::fill(pending_.begin(), pending_.end(), 0);
  for (size_t b = 0; b < plan_.buckets.size(); ++b) pending_[b] = plan_.buckets[b].end - plan_.buckets[b].first;
  ++pending_.back();  // the trailer: batch-norm sums and the ticket, which finish() announces
  launched_ = 0;
}

void Reducer::ready(ParameterId id) {
  DDP_EXPECT(id >= 0 && id < trailer());
  if (announced_[id]) [[unlikely]]
    fail(Exit::internal, "{} was announced twice in one step", name_of(plan_, id));
  announce(id, plan_.bucket_of(id));
}

void Reducer::announce(ParameterId id, int collective) {
  announced_[id] = 1;
  if (--pending_[collective] == 0 && ready_hook_) ready_hook_(collective);
  for (; launched_ < collectives() && pending_[launched_] == 0; ++launched_)
    run(launched_, [this] { last_ = start(launched_); });
}

void Reducer::run(int number, const std::function<void()>& work) { hook_ ? hook_(number, work) : work(); }

Communicator::Sequence Reducer::start(int collective) {
  const auto trailer = flat_.subspan(plan_.padded);
  if (collective == std::ssize(plan_.buckets)) return communicator_.all_reduce(DeviceSpan::of(trailer));
  const auto [offset, count, first, end] = plan_.buckets[collective];
  const bool with_trailer = config_.trailer_in_last_bucket && collective + 1 == collectives();
  auto span = DeviceSpan::of(flat_.subspan(offset, count + (with_trailer ? trailer.size() : 0)));
  if (config_.residual) span.residual = config_.residual->from(offset);
  return config_.sharded ? communicator_.reduce_scatter(span) : communicator_.all_reduce(span);
}

void Reducer::finish() {
  DDP_EXPECT(!announced_.back());
  announce(trailer(), collectives() - 1);
  const auto never = std::find(announced_.begin(), announced_.end(), 0);
  if (never != announced_.end()) [[unlikely]]
    fail(Exit::internal, "{} was never announced in this step",
         name_of(plan_, static_cast<ParameterId>(never - announced_.begin())));
  run(collectives(), [this] { communicator_.wait(last_); });
}

}  // namespace ddp
