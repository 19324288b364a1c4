#include "train/weight_update.h"

#include "core/error.h"

#include <algorithm>
#include <cmath>

namespace ddp {
namespace {

std::vector<Part> parts_to_update(const BucketPlan& plan, const Communicator& communicator, bool scatter) {
  if (scatter) return parts_of(plan, communicator.rank(), communicator.size());
  return {{.begin = 0, .count = plan.gradients, .state = 0}};
}

}  // namespace

WeightUpdate::WeightUpdate(const WeightUpdateDesc& desc, std::span<const OptimizerTensor> tensors,
                           const BucketPlan& plan, Device& device, Ops& ops, Communicator& communicator)
    : desc_(desc),
      plan_(plan),
      device_(device),
      ops_(ops),
      communicator_(communicator),
      parts_(parts_to_update(plan, communicator, desc.scatter)),
      square_sum_(device, sizeof(float)),
      optimizer_(ops.optimizer(desc.optimizer, tensors)) {
  DDP_EXPECT(!desc.scatter || desc.optimizer.kind != OptimizerDesc::Kind::lars);
  for (int k = 0; k < states(); ++k)
    state_.emplace_back(device, bytes_of_floats(parts_.empty() ? 0 : parts_.back().state + parts_.back().count));
}

void WeightUpdate::issue(float* weights, const float* gradients, OptimizerScalars* scalars,
                         std::span<const float> skip) {
  if (desc_.max_grad_norm > 0) {
    auto* const sum = square_sum_.as<float>();
    for (size_t i = 0; i < parts_.size(); ++i)
      ops_.sum_of_squares(gradients + parts_[i].begin, parts_[i].count, sum,
                          i == 0 ? Gradient::overwrite : Gradient::add);
    if (desc_.scatter) communicator_.wait(communicator_.all_reduce({sum, 1, DType::f32}));
    ops_.clip_scale(sum, static_cast<float>(desc_.max_grad_norm), &scalars->gradient_scale);
  }
  if (!desc_.scatter) return update(parts_[0], weights, gradients, scalars, skip);

  // A bucket's weights travel while the next bucket's are updated.
  Communicator::Sequence last = 0;
  for (size_t b = 0; b < parts_.size(); ++b) {
    update(parts_[b], weights, gradients, scalars, skip);
    last = communicator_.all_gather({weights + plan_.buckets[b].offset, plan_.buckets[b].count, DType::f32});
  }
  communicator_.wait(last);
}

void WeightUpdate::update(const Part& part, float* weights, const float* gradients, const OptimizerScalars* scalars,
                          std::span<const float> skip) {
  OptimizerPart piece{.weights = weights, .gradients = gradients, .begin = part.begin, .count = part.count};
  for (int k = 0; k < states(); ++k) piece.state[k] = state_[k].as<float>() + part.state;
  optimizer_->step(piece, scalars, skip);
}

int WeightUpdate::collectives() const {
  return desc_.scatter ? static_cast<int>(plan_.buckets.size()) + (desc_.max_grad_norm > 0 ? 1 : 0) : 0;
}

OptimizerScalars WeightUpdate::scalars_for(double rate, int64_t step) const {
  OptimizerScalars scalars{.rate = static_cast<float>(rate)};
  if (desc_.optimizer.kind == OptimizerDesc::Kind::adam) {
    const auto correction = [&](float beta) {
      return static_cast<float>(1 - std::pow(double{beta}, static_cast<double>(step)));
    };
    scalars.correction1 = correction(desc_.optimizer.beta1);
    scalars.correction2 = correction(desc_.optimizer.beta2);
  }
  return scalars;
}

std::string_view WeightUpdate::state_name(int k) const {
  DDP_EXPECT(k >= 0 && k < states());
  if (desc_.optimizer.kind != OptimizerDesc::Kind::adam) return "momentum_buffer";
  return k == 0 ? "exp_avg" : "exp_avg_sq";
}

std::vector<float> WeightUpdate::download_state(int k) {
  DDP_EXPECT(k >= 0 && k < states());
  std::vector<float> values(plan_.gradients);
  if (!desc_.scatter) {
    device_.download(values.data(), state_[k].data(), bytes_of_floats(plan_.gradients));
    device_.synchronize();
    return values;
  }
  const Buffer whole(device_, bytes_of_floats(plan_.padded));
  auto* const flat = whole.as<float>();
  for (size_t b = 0; b < parts_.size(); ++b) {
    ops_.copy_or_add(state_[k].as<float>() + parts_[b].state, flat + parts_[b].begin, parts_[b].count,
                     Gradient::overwrite);
    communicator_.wait(communicator_.all_gather({flat + plan_.buckets[b].offset, plan_.buckets[b].count, DType::f32}));
  }
  device_.download(values.data(), flat, bytes_of_floats(plan_.gradients));
  device_.synchronize();
  return values;
}

void WeightUpdate::load_state(int k, std::span<const float> values) {
  DDP_EXPECT(k >= 0 && k < states() && std::ssize(values) <= plan_.gradients);
  for (const Part& part : parts_) {
    const int64_t count = std::clamp<int64_t>(std::ssize(values) - part.begin, 0, part.count);
    device_.upload(state_[k].as<float>() + part.state, values.data() + part.begin, bytes_of_floats(count));
  }
  device_.synchronize();
}

size_t WeightUpdate::state_bytes() const {
  size_t bytes = 0;
  for (const Buffer& buffer : state_) bytes += buffer.bytes();
  return bytes;
}

}  // namespace ddp
