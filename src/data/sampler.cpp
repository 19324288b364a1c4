#include "data/sampler.h"

#include "core/error.h"
#include "data/permutation.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace ddp {

// The cut before rank r is count * (w_0 + ... + w_{r-1}) / (w_0 + ... + w_{n-1}), rounded. Neighbouring ranks compute
// the same cut, so the shards have no gap and no overlap. Sums, quotient and product are rounded separately, and the
// compiler cannot contract them to a fused operation: every machine gets the same cuts.
Range shard_range(int64_t count, int rank, std::span<const double> weights) {
  const int world = static_cast<int>(weights.size());
  DDP_EXPECT(count >= 0 && rank >= 0 && rank < world);
  double total = 0, before = 0, through = 0;
  for (int r = 0; r < world; ++r) {
    DDP_EXPECT(weights[r] > 0 && std::isfinite(weights[r]));
    if (r == rank) before = total;
    total += weights[r];
    if (r == rank) through = total;
  }
  const auto cut = [&](double sum) { return std::llround(static_cast<double>(count) * (sum / total)); };
  return {cut(before), rank == world - 1 ? count : cut(through)};
}

DistributedSampler::DistributedSampler(int64_t samples, int64_t global_batch, Order order, uint64_t seed, int rank,
                                       std::vector<double> weights, int micro_batches)
    : samples_(samples),
      global_batch_(global_batch),
      order_(order),
      seed_(seed),
      rank_(rank),
      weights_(std::move(weights)),
      micro_batches_(micro_batches) {
  DDP_EXPECT(samples_ >= 0 && global_batch_ >= 1 && micro_batches_ >= 1);
  shard_range(0, rank_, weights_);  // checks rank and weights
}

void DistributedSampler::set_weights(std::vector<double> weights) {
  DDP_EXPECT(weights.size() == weights_.size());
  weights_ = std::move(weights);
  shard_range(0, rank_, weights_);  // checks them
}

int64_t DistributedSampler::samples() const { return samples_; }

int64_t DistributedSampler::steps_per_epoch() const {
  return samples_ / global_batch_ + (samples_ % global_batch_ != 0 ? 1 : 0);
}

int64_t DistributedSampler::global_batch_size(int64_t step) const {
  DDP_EXPECT(step >= 0 && step < steps_per_epoch());
  return std::min(global_batch_, samples_ - step * global_batch_);
}

int DistributedSampler::micro_batches() const { return micro_batches_; }

Range DistributedSampler::micro_batch(int64_t step, int micro) const {
  DDP_EXPECT(micro >= 0 && micro < micro_batches_);
  const int64_t size = global_batch_size(step), begin = step * global_batch_;
  return {begin + size * micro / micro_batches_, begin + size * (micro + 1) / micro_batches_};
}

Range DistributedSampler::shard(int64_t step, int micro) const {
  const Range whole = micro_batch(step, micro), part = shard_range(whole.size(), rank_, weights_);
  return {whole.begin + part.begin, whole.begin + part.end};
}

int64_t DistributedSampler::before_shard(int64_t step, int micro) const {
  const int64_t begin = shard(step, micro).begin, first = step * global_batch_;
  return begin > first ? begin - 1 : first + global_batch_size(step) - 1;
}

BatchPlan DistributedSampler::plan(int64_t number) const {
  const int micro = static_cast<int>(number % micro_batches_);
  const int64_t step = number / micro_batches_ % steps_per_epoch();
  BatchPlan plan{.size = shard(step, micro).size(),
                 .global_size = micro_batch(step, micro).size(),
                 .step_size = global_batch_size(step),
                 .epoch = number / micro_batches_ / steps_per_epoch(),
                 .step = step,
                 .micro = micro};
  for (int m = 0; m < micro_batches_; ++m) plan.local_step_size += shard(step, m).size();
  return plan;
}

int64_t DistributedSampler::sample(int64_t epoch, int64_t position) const {
  DDP_EXPECT(position >= 0 && position < samples_);
  return order_ == Order::sequential ? position : Permutation(seed_, epoch, samples_)(position);
}

std::vector<int64_t> DistributedSampler::local_batch_sizes() const {
  std::vector<int64_t> sizes;
  if (samples_ == 0) return sizes;
  const int64_t steps = steps_per_epoch();
  for (const int64_t step : {int64_t{0}, steps - 1})
    for (int micro = 0; micro < micro_batches_; ++micro)
      if (const int64_t size = shard(step, micro).size(); size > 0) sizes.push_back(size);
  std::sort(sizes.begin(), sizes.end());
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  return sizes;
}

int64_t DistributedSampler::largest_micro_batch() const {
  return samples_ == 0 ? 0 : (global_batch_size(0) + micro_batches_ - 1) / micro_batches_;
}

int64_t DistributedSampler::largest_shard() const {
  const std::vector<int64_t> sizes = local_batch_sizes();
  return sizes.empty() ? 1 : sizes.back();
}

}  // namespace ddp
