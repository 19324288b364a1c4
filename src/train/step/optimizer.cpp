#include "train/step/optimizer.h"

#include "core/error.h"

#include <algorithm>
#include <cmath>

namespace ddp {
namespace {

std::vector<Partition> partitions_to_update(const BucketPlan& plan, const Communicator& communicator, bool sharded) {
  if (sharded) return partitions_of(plan, communicator.rank(), communicator.size());
  return {{.begin = 0, .count = plan.gradients, .state = 0}};
}

}  // namespace

Optimizer::Optimizer(const OptimizerConfig& config, std::span<const OptimizerTensor> tensors, const FlatBuffers& flat,
                     Device& device, Ops& ops, Communicator& communicator)
    : config_(config),
      flat_(flat),
      device_(device),
      ops_(ops),
      communicator_(communicator),
      partitions_(partitions_to_update(flat.plan, communicator, config.sharded)),
      op_(ops.optimizer(config.optimizer, tensors)) {
  DDP_EXPECT(!config.sharded || config.optimizer.kind != OptimizerDesc::Kind::lars);
  for (int k = 0; k < states(); ++k)
    state_.emplace_back(device,
                        bytes_of_floats(partitions_.empty() ? 0 : partitions_.back().state + partitions_.back().count));
}

void Optimizer::buckets_changed() { partitions_ = partitions_to_update(flat_.plan, communicator_, config_.sharded); }

void Optimizer::step(OptimizerScalars* scalars, std::span<const float> skip) {
  for (size_t i = 0; config_.sums_squares && i < partitions_.size(); ++i)
    ops_.sum_of_squares(flat_.gradients + partitions_[i].begin, partitions_[i].count, flat_.squares,
                        i == 0 ? Gradient::overwrite : Gradient::add);
  if (flat_.seen.divisor)
    ops_.correct_for_excluded(flat_.seen.divisor, flat_.seen.mark, &scalars->gradient_scale, flat_.seen.flag);
  if (config_.max_grad_norm > 0) {
    if (config_.sharded) communicator_.wait(communicator_.all_reduce({flat_.squares, 1, DType::f32}));
    ops_.clip_scale(flat_.squares, static_cast<float>(config_.max_grad_norm), &scalars->gradient_scale);
  }
  if (!config_.sharded) return update(partitions_[0], scalars, skip);

  // The gather of a bucket's weights overlaps with the update of the next bucket.
  Communicator::Sequence last = 0;
  for (size_t b = 0; b < partitions_.size(); ++b) {
    update(partitions_[b], scalars, skip);
    last = gather(b);
  }
  communicator_.wait(last);
}

void Optimizer::gather_alone() {
  if (!config_.sharded) return;
  for (size_t b = 0; b + 1 < partitions_.size(); ++b) gather(b);
  communicator_.wait(gather(partitions_.size() - 1));
}

Communicator::Sequence Optimizer::gather(size_t b) {
  const Bucket& bucket = flat_.plan.buckets[b];
  return communicator_.all_gather({flat_.weights + bucket.offset, bucket.count, DType::f32});
}

void Optimizer::update(const Partition& partition, const OptimizerScalars* scalars, std::span<const float> skip) {
  OptimizerPart part{
      .weights = flat_.weights, .gradients = flat_.gradients, .begin = partition.begin, .count = partition.count};
  if (rounds_weights()) part.bf16_weights = flat_.bf16_weights;
  for (int k = 0; k < states(); ++k) part.state[k] = state_[k].as<float>() + partition.state;
  op_->step(part, scalars, skip);
}

int Optimizer::collectives() const {
  return config_.sharded ? static_cast<int>(flat_.plan.buckets.size()) + (config_.max_grad_norm > 0 ? 1 : 0) : 0;
}

OptimizerScalars Optimizer::scalars_for(double lr, int64_t step) const {
  OptimizerScalars scalars{.lr = static_cast<float>(lr)};
  if (config_.optimizer.kind == OptimizerDesc::Kind::adam) {
    const auto correction = [&](float beta) {
      return static_cast<float>(1 - std::pow(double{beta}, static_cast<double>(step)));
    };
    scalars.correction1 = correction(config_.optimizer.beta1);
    scalars.correction2 = correction(config_.optimizer.beta2);
  }
  return scalars;
}

std::string_view Optimizer::state_name(int k) const {
  DDP_EXPECT(k >= 0 && k < states());
  if (config_.optimizer.kind != OptimizerDesc::Kind::adam) return "momentum_buffer";
  return k == 0 ? "exp_avg" : "exp_avg_sq";
}

void Optimizer::download_state(int k, float* values) {
  DDP_EXPECT(k >= 0 && k < states());
  const auto download = [&](const void* flat) {
    if (values) device_.download(values, flat, bytes_of_floats(flat_.plan.gradients));
    device_.synchronize();
  };
  if (!config_.sharded) return download(state_[k].data());
  const Buffer whole(device_, bytes_of_floats(flat_.plan.padded));
  auto* const flat = whole.as<float>();
  for (size_t b = 0; b < partitions_.size(); ++b) {
    ops_.copy_or_add(state_[k].as<float>() + partitions_[b].state, flat + partitions_[b].begin, partitions_[b].count,
                     Gradient::overwrite);
    communicator_.wait(
        communicator_.all_gather({flat + flat_.plan.buckets[b].offset, flat_.plan.buckets[b].count, DType::f32}));
  }
  download(flat);
}

void Optimizer::load_state(int k, std::span<const float> values) {
  DDP_EXPECT(k >= 0 && k < states() && std::ssize(values) <= flat_.plan.gradients);
  for (const Partition& part : partitions_) {
    const int64_t count = std::clamp<int64_t>(std::ssize(values) - part.begin, 0, part.count);
    device_.upload(state_[k].as<float>() + part.state, values.data() + part.begin, bytes_of_floats(count));
  }
  device_.synchronize();
}

size_t Optimizer::state_bytes() const {
  size_t bytes = 0;
  for (const Buffer& buffer : state_) bytes += buffer.bytes();
  return bytes;
}

}  // namespace ddp
