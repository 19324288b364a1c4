#include "train/replica.h"

#include "core/error.h"
#include "ddp/replica_check.h"

#include <utility>

namespace ddp {
namespace {

int64_t alignment(const ReplicaConfig& config, int world) { return config.zero ? scatter_alignment(world) : 1; }

BucketPlan plan_for(std::span<const Parameter> parameters, int64_t multiple, int64_t statistics, int world,
                    const BucketCaps& caps) {
  std::vector<int64_t> counts;
  for (size_t i = 0; i < parameters.size(); ++i)  // with the gap behind it
    counts.push_back((i + 1 < parameters.size() ? parameters[i + 1].offset : flat_count(parameters, multiple)) -
                     parameters[i].offset);
  return plan_buckets(counts, world, statistics + TicketLayout{world}.elements(), caps);
}

std::vector<RunningStatsSpan> spans_of(std::span<const BatchNormState> batch_norms) {
  std::vector<RunningStatsSpan> spans;
  for (const BatchNormState& norm : batch_norms) spans.push_back(norm.span);
  return spans;
}

}  // namespace

Replica::Replica(const Network& network, const ReplicaConfig& config, Device& device_, Ops& ops_,
                 Communicator& communicator_)
    : device(device_),
      ops(ops_),
      communicator(communicator_),
      parameters(parameters_of(network, alignment(config, communicator_.size()))),
      batch_norms(batch_norm_states_of(network)),
      ticket_layout{communicator_.size()},
      plan(plan_for(parameters, alignment(config, communicator_.size()), state_count(batch_norms), communicator_.size(),
                    config.caps)),
      frame(plan, ticket_layout),
      weights_(device_, bytes_of_floats(plan.padded)),
      gradients_(communicator_.memory() ? *communicator_.memory() : device_, bytes_of_floats(frame.end)),
      state_(device_, bytes_of_floats(state_count(batch_norms))),
      evaluation_state_(device_, bytes_of_floats(state_count(batch_norms))),
      shadow_(config.grad_dtype == DType::bf16 ? Buffer(communicator_.memory() ? *communicator_.memory() : device_,
                                                        static_cast<size_t>(plan.padded) * size_of(DType::bf16))
                                               : Buffer()),
      bn_communicator_(batch_norms.empty() || communicator_.size() == 1 ? nullptr : communicator_.split(0)),
      running_stats_(ops_.running_stats(spans_of(batch_norms))),
      model(network, parameters, batch_norms, config.batch_sizes, device_, ops_,
            {weights(), gradients(), statistics(), state(), ticket(),
             reinterpret_cast<const uint32_t*>(gradients() + frame.epoch)},
            model_config(config)),
      reducer(plan, communicator_, {gradients(), static_cast<size_t>(plan.total)}, wire(config)),
      update({config.optimizer, config.max_grad_norm, config.zero}, optimizer_tensors(parameters, config.all_decay),
             plan, device_, ops_, communicator_) {
  check_same_on_all_ranks(plan.hash(), "bucket plan", communicator);
  device.set_poll([this] { communicator.progress(); });
  load_state(initial_state(batch_norms));
}

Replica::~Replica() { device.set_poll({}); }

ModelConfig Replica::model_config(const ReplicaConfig& config) {
  ModelConfig model_config{
      .sync_bn = config.sync_bn, .all_reduce = {}, .label_smoothing = config.label_smoothing, .seed = config.seed};
  if (bn_communicator_)
    model_config.all_reduce = [c = bn_communicator_.get()](float* values, int64_t count) {
      c->wait(c->all_reduce({values, count, DType::f32}));
    };
  return model_config;
}

GradientWire Replica::wire(const ReplicaConfig& config) {
  GradientWire wire{.dtype = config.grad_dtype, .scatter = config.zero};
  if (config.grad_dtype == DType::f32) return wire;
  wire.shadow = shadow_.data();
  wire.to_shadow = [this](int64_t offset, int64_t count) {
    ops.to_bf16(gradients() + offset, shadow_.as<uint16_t>() + offset, count);
  };
  wire.from_shadow = [this](int64_t offset, int64_t count) {
    ops.from_bf16(shadow_.as<uint16_t>() + offset, gradients() + offset, count);
  };
  return wire;
}

void Replica::load(std::span<const float> values) {
  DDP_EXPECT(std::ssize(values) <= plan.gradients &&
             std::ssize(values) >= parameters.back().offset + parameters.back().count);
  device.upload(weights(), values.data(), values.size_bytes());
  model.bind();
}

void Replica::load_state(std::span<const float> values) {
  DDP_EXPECT(static_cast<int64_t>(values.size()) == state_count(batch_norms));
  if (values.empty()) return;
  device.upload(state(), values.data(), values.size_bytes());
  device.upload(evaluation_state(), values.data(), values.size_bytes());
}

std::vector<float> Replica::download(const float* from, int64_t count) const {
  std::vector<float> values(count);
  if (count > 0) device.download(values.data(), from, bytes_of_floats(count));
  device.synchronize();
  return values;
}

std::vector<float> Replica::download_weights() const { return download(weights(), plan.gradients); }
std::vector<float> Replica::download_gradients() const { return download(gradients(), plan.gradients); }
std::vector<float> Replica::download_state(const float* state) const {
  return download(state, state_count(batch_norms));
}

void Replica::check_replicas() const {
  const std::vector<float> values = download_weights(), statistics_now = download_state(state());
  std::vector<NamedSpan> named;
  for (const Parameter& p : parameters) named.push_back({p.name, std::span(values).subspan(p.offset, p.count)});
  for (const BatchNormState& n : batch_norms)
    named.push_back({n.layer_name, std::span(statistics_now).subspan(n.span.offset, 2 * n.span.channels)});
  ddp::check_replicas(named, communicator);
}

}  // namespace ddp
