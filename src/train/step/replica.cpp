#include "train/step/replica.h"

#include "comm/casting_communicator.h"
#include "core/error.h"
#include "ddp/replica_check.h"
#include "train/step/nonfinite_scan.h"

#include <algorithm>

namespace ddp {
namespace {

int64_t alignment(const ReplicaConfig& config, int world) { return config.zero ? partition_alignment(world) : 1; }

TicketLayout ticket_layout(const ReplicaConfig& config, int world) { return {world, !config.class_weights.empty()}; }

BucketPlan plan_for(std::span<const Parameter> all, int64_t multiple, int64_t bn_batch_sums, const TicketLayout& ticket,
                    const BucketCaps& caps) {
  const auto parameters = trained_of(all);
  std::vector<int64_t> counts;
  for (size_t i = 0; i < parameters.size(); ++i)  // counts include the gap after the parameter
    counts.push_back((i + 1 < parameters.size() ? parameters[i + 1].offset : flat_count(parameters, multiple)) -
                     parameters[i].offset);
  return plan_buckets(counts, ticket.world, bn_batch_sums + ticket.elements(), caps);
}

std::vector<ScannedTensor> scanned_tensors(std::span<const Parameter> parameters, const BucketPlan& plan,
                                           const Ops& ops) {
  std::vector<ScannedTensor> tensors;
  for (const Parameter& p : trained_of(parameters))
    tensors.push_back({.offset = p.offset,
                       .count = p.count,
                       .mark = TicketLayout::bad_bucket(plan.bucket_of(static_cast<ParameterId>(tensors.size()))),
                       .bf16 = p.pytorch_shape.size() == 4 && ops.reads_bf16_weights()});
  return tensors;
}

std::vector<RunningStatsSpan> spans_of(std::span<const BatchNormState> batch_norms) {
  std::vector<RunningStatsSpan> spans;
  for (const BatchNormState& norm : batch_norms)
    if (norm.trained) spans.push_back(norm.span);
  return spans;
}

Memory& comm_memory(Communicator& communicator, Device& device) {
  return communicator.memory() ? *communicator.memory() : device;
}

bool in_bf16(const ReplicaConfig& config) { return config.grad_dtype == GradDType::bf16; }

// On one host there is nothing to send.
Buffer residual_for(const ReplicaConfig& config, const Communicator& communicator, Device& device,
                    const BucketPlan& plan) {
  if (config.grad_dtype != GradDType::int8 || communicator.place().hosts == 1) return {};
  DDP_EXPECT(communicator.sums_in_int8());
  return {device.host_memory(), bytes_of_floats(plan.padded)};
}

std::unique_ptr<Communicator> casting_for(const Replica& r) {
  if (!r.comm_buffer.data()) return nullptr;
  auto* const comm = r.comm_buffer.as<uint16_t>();
  return make_casting_communicator(
      r.communicator,
      {.gradients = {r.gradients(), static_cast<size_t>(r.plan.padded)},
       .comm_buffer = comm,
       .cast_to_comm = [&r, comm](int64_t at, int64_t n) { r.ops.to_bf16(r.gradients() + at, comm + at, n); },
       .cast_from_comm = [&r, comm](int64_t at, int64_t n) { r.ops.from_bf16(comm + at, r.gradients() + at, n); }});
}

SeenSamples seen_samples(const Replica& r) {
  if (!r.corrects_divisor()) return {};
  const int64_t divisor = r.layout.ticket_layout.divisor();
  return {.divisor = &r.block.ticket()[divisor], .mark = TicketLayout::kNoSamples, .flag = &r.block.bad()[0]};
}

ModelConfig model_config(const ReplicaConfig& config, Communicator* bn_communicator) {
  ModelConfig model{.sync_bn = config.sync_bn,
                    .all_reduce = {},
                    .label_smoothing = config.label_smoothing,
                    .seed = config.seed,
                    .pixel_scale = config.pixel_scale,
                    .augmentation = config.augmentation};
  if (bn_communicator)
    model.all_reduce = [bn_communicator](float* values, int64_t count) {
      bn_communicator->wait(bn_communicator->all_reduce({values, count, DType::f32}));
    };
  return model;
}

std::vector<HashedSpan> hashed(std::span<const Parameter> parameters) {
  std::vector<HashedSpan> spans;
  for (const Parameter& p : parameters) spans.push_back({p.offset, p.count});
  return spans;
}

std::vector<HashedSpan> hashed(std::span<const BatchNormState> batch_norms) {
  std::vector<HashedSpan> spans;
  for (const BatchNormState& n : batch_norms) spans.push_back({n.span.offset, 2 * n.span.channels});
  return spans;
}

int64_t largest(std::span<const int64_t> batch_sizes) {
  return batch_sizes.empty() ? 0 : std::ranges::max(batch_sizes);
}

}  // namespace

Replica::Replica(const Network& network, const ReplicaConfig& config, Device& device_, Ops& ops_,
                 Communicator& communicator_)
    : device(device_),
      ops(ops_),
      communicator(communicator_),
      parameters(parameters_of(network, alignment(config, communicator_.size()))),
      batch_norms(batch_norm_states_of(network)),
      plan(plan_for(parameters, alignment(config, communicator_.size()), bn_batch_sums_count(),
                    ticket_layout(config, communicator_.size()), config.caps)),
      weights_count(flat_count(parameters, alignment(config, communicator_.size()))),
      layout(plan, ticket_layout(config, communicator_.size()),
             largest(config.batch_sizes) + (config.mix.any() ? 1 : 0)),
      weight_buffer(config.zero ? comm_memory(communicator_, device_) : device_,
                    bytes_of_floats(std::max(plan.padded, weights_count))),
      gradient_buffer(comm_memory(communicator_, device_), bytes_of_floats(layout.end)),
      comm_buffer(in_bf16(config) ? Buffer(comm_memory(communicator_, device_),
                                           static_cast<size_t>(plan.padded) * size_of(DType::bf16))
                                  : Buffer()),
      residual_buffers{residual_for(config, communicator_, device_, plan),
                       residual_for(config, communicator_, device_, plan)},
      running_stats_buffer(device_, bytes_of_floats(state_count(batch_norms))),
      eval_stats_buffer(device_, bytes_of_floats(state_count(batch_norms))),
      average(config.averages
                  ? std::make_unique<WeightAverage>(device_, ops_, weight_buffer.bytes(), running_stats_buffer.bytes())
                  : nullptr),
      block(layout.on_device(gradients())),
      bn_communicator(bn_batch_sums_count() == 0 || communicator_.size() == 1 ? nullptr : communicator_.split(0)),
      casting(casting_for(*this)),
      scans_once(communicator_.size() == 1 && !casting && !communicator_.copies()),
      running_stats_op(ops_.running_stats(spans_of(batch_norms))),
      weight_hash(communicator_.size() == 1 ? nullptr : ops_.tensor_hash(hashed(parameters))),
      running_stats_hash(communicator_.size() == 1 ? nullptr : ops_.tensor_hash(hashed(batch_norms))),
      hashes(communicator_.size() == 1
                 ? Buffer()
                 : Buffer(device_, (average ? 2 : 1) * (parameters.size() + batch_norms.size()) * sizeof(uint64_t))),
      excludes(config.excludes),
      mix(config.mix),
      class_weights(config.class_weights),
      seed(config.seed),
      sync_bn(config.sync_bn && bn_communicator),
      model(network, parameters, batch_norms, config.batch_sizes, device_, ops_,
            {weights(), gradients(), bn_batch_sums(), running_stats(), block.loss_stats(), block.epoch()},
            model_config(config, bn_communicator.get())),
      gradient_scan(ops_.gradient_scan(scanned_tensors(parameters, plan, ops_))),
      reducer(plan, casting ? *casting : communicator_, {gradients(), static_cast<size_t>(plan.total)},
              {.sharded = config.zero,
               .trailer_in_last_bucket = !casting,
               .residual = sums_in_int8() ? &step_residual : nullptr}),
      optimizer({config.optimizer, config.max_grad_norm, config.zero, !scans_once},
                optimizer_tensors(trained_of(parameters), config.optimizer, config.all_decay, config.groups),
                {plan, weights(), gradients(), block.squares(), model.bf16_weights(), seen_samples(*this)}, device_,
                ops_, communicator_) {
  step_residual = {residual_buffers[0].as<float>(), residual_buffers[1].as<float>()};
  DDP_EXPECT(class_weights.empty() || (!mix.any() && config.label_smoothing == 0));
  check_same_on_all_ranks(plan.hash(), "bucket plan", communicator);
  reducer.set_launch_hook(nonfinite_scan(*this));
  device.set_poll([this] { communicator.progress(); });
  load_running_stats(initial_state(batch_norms));
}

Replica::~Replica() { device.set_poll({}); }

void Replica::set_buckets(std::span<const ParameterId> begins) {
  device.synchronize();
  plan = plan_buckets_at(plan.parameter_counts, communicator.size(), plan.trailer(), begins);
  check_same_on_all_ranks(plan.hash(), "bucket plan", communicator);
  gradient_scan = ops.gradient_scan(scanned_tensors(parameters, plan, ops));
  reducer.buckets_changed();
  optimizer.buckets_changed();
}

void Replica::run(GraphCache* graphs, GraphKey key, const std::function<void()>& work) const {
  if (graphs != nullptr && communicator.capturable())
    graphs->run(key, work);
  else
    work();
}

void Replica::zero_gradients() const { device.zero(gradients(), bytes_of_floats(plan.padded)); }

void Replica::update_running_stats(int64_t samples) const {
  if (bn_batch_sums_count() == 0) return;
  running_stats_op->update(running_stats(), bn_batch_sums(), static_cast<float>(samples), false, block.bad());
}

void Replica::update_average(float rate) const { average->update(weights(), running_stats(), rate, block.bad()); }

void Replica::load(std::span<const float> values) {
  DDP_EXPECT(std::ssize(values) <= weights_count &&
             std::ssize(values) >= parameters.back().offset + parameters.back().count);
  device.upload(weights(), values.data(), values.size_bytes());
  if (average) device.upload(average->weights(), values.data(), values.size_bytes());
  model.bind();
}

void Replica::load_running_stats(std::span<const float> values) {
  load_eval_stats(values);
  if (values.empty()) return;
  device.upload(running_stats(), values.data(), values.size_bytes());
  if (average) device.upload(average->running_stats(), values.data(), values.size_bytes());
}

void Replica::load_average(std::span<const float> weights, std::span<const float> stats) {
  DDP_EXPECT(average && weights.size_bytes() <= weight_buffer.bytes() &&
             stats.size_bytes() == running_stats_buffer.bytes());
  device.upload(average->weights(), weights.data(), weights.size_bytes());
  if (!stats.empty()) device.upload(average->running_stats(), stats.data(), stats.size_bytes());
}

void Replica::load_eval_stats(std::span<const float> values) {
  DDP_EXPECT(static_cast<int64_t>(values.size()) == state_count(batch_norms));
  if (!values.empty()) device.upload(eval_stats(), values.data(), values.size_bytes());
}

std::vector<float> Replica::download(const float* from, int64_t count) const {
  std::vector<float> values(count);
  if (count > 0) device.download(values.data(), from, bytes_of_floats(count));
  device.synchronize();
  return values;
}

std::vector<float> Replica::download_weights() const { return download(weights(), weights_count); }
std::vector<float> Replica::download_gradients() const { return download(gradients(), plan.gradients); }
std::vector<float> Replica::download_stats(const float* stats) const {
  return download(stats, state_count(batch_norms));
}

const char* Replica::gradient_type() const {
  return comm_buffer.data() ? " in bf16" : sums_in_int8() ? " in int8 between hosts" : "";
}

void Replica::check_replicas() const {
  if (communicator.size() == 1) return;
  auto* const on_device = hashes.as<uint64_t>();
  const size_t tensors = parameters.size() + batch_norms.size();
  weight_hash->hash(weights(), on_device);
  running_stats_hash->hash(running_stats(), on_device + parameters.size());
  if (average) {
    weight_hash->hash(average->weights(), on_device + tensors);
    running_stats_hash->hash(average->running_stats(), on_device + tensors + parameters.size());
  }
  std::vector<uint64_t> values(hashes.bytes() / sizeof(uint64_t));
  device.download(values.data(), on_device, hashes.bytes());
  device.synchronize();
  std::vector<std::string> names;
  for (const std::string whose : {"", "the average of "}) {
    for (const Parameter& p : parameters) names.push_back(whose + p.name);
    for (const BatchNormState& n : batch_norms) names.push_back(whose + n.layer_name);
  }
  std::vector<NamedHash> named;
  for (size_t i = 0; i < values.size(); ++i) named.push_back({names[i], values[i]});
  check_same_on_all_ranks(named, communicator);
}

}  // namespace ddp
