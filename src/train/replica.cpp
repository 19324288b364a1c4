#include "train/replica.h"

#include "core/error.h"
#include "ddp/replica_check.h"

#include <utility>

namespace ddp {
namespace {

BucketPlan plan_for(std::span<const Parameter> parameters, int world, const BucketCaps& caps) {
  std::vector<int64_t> counts;
  for (size_t i = 0; i < parameters.size(); ++i)  // with the gap behind it
    counts.push_back((i + 1 < parameters.size() ? parameters[i + 1].offset : flat_count(parameters)) -
                     parameters[i].offset);
  return plan_buckets(counts, world, TicketLayout{world}.elements(), caps);
}

size_t bytes_of(int64_t floats) { return static_cast<size_t>(floats) * sizeof(float); }

}  // namespace

Replica::Replica(const Network& network, std::vector<int64_t> batch_sizes, const BucketCaps& caps, Device& device_,
                 Ops& ops_, Communicator& communicator_)
    : device(device_),
      ops(ops_),
      communicator(communicator_),
      parameters(parameters_of(network)),
      ticket_layout{communicator_.size()},
      plan(plan_for(parameters, communicator_.size(), caps)),
      frame(plan, ticket_layout),
      weights_(device_, bytes_of(plan.padded)),
      gradients_(communicator_.memory() ? *communicator_.memory() : device_, bytes_of(frame.end)),
      model(network, batch_sizes, device_, ops_, weights(), gradients()),
      reducer(plan, communicator_, {gradients(), static_cast<size_t>(plan.total)}) {
  check_same_on_all_ranks(plan.hash(), "bucket plan", communicator);
  device.set_poll([this] { communicator.progress(); });
}

Replica::~Replica() { device.set_poll({}); }

void Replica::load(std::span<const float> values) {
  DDP_EXPECT(static_cast<int64_t>(values.size()) == plan.gradients);
  device.upload(weights(), values.data(), values.size_bytes());
  model.bind();
}

std::vector<float> Replica::download(const float* from) const {
  std::vector<float> values(plan.gradients);
  device.download(values.data(), from, bytes_of(plan.gradients));
  device.synchronize();
  return values;
}

std::vector<float> Replica::download_weights() const { return download(weights()); }
std::vector<float> Replica::download_gradients() const { return download(gradients()); }

void Replica::check_replicas() const {
  const std::vector<float> values = download_weights();
  std::vector<NamedSpan> named;
  for (const Parameter& p : parameters) named.push_back({p.name, std::span(values).subspan(p.offset, p.count)});
  ddp::check_replicas(named, communicator);
}

}  // namespace ddp
