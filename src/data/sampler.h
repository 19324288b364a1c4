// Assigns samples to steps and ranks: pure functions of (seed, epoch, dataset size, global batch, weights). Every
// sample is used exactly once an epoch. The last global batch of an epoch may be short, and a shard may be empty.
#pragma once

#include "core/batch_plan.h"

#include <cstdint>
#include <span>
#include <vector>

namespace ddp {

struct Range {
  int64_t begin = 0, end = 0;
  int64_t size() const { return end - begin; }
  friend bool operator==(const Range&, const Range&) = default;
};

// Divides 0..count-1 among the ranks in proportion to `weights` (one for each rank, finite and > 0) and returns the
// shard of `rank`. The shards are contiguous, in rank order, disjoint and complete. With equal weights their sizes
// differ by at most one.
Range shard_range(int64_t count, int rank, std::span<const double> weights);

enum class Order { shuffled, sequential };

class DistributedSampler {
 public:
  // Each global batch is cut into `micro_batches` micro-batches, which a step processes one after another. Each is
  // divided among the ranks in proportion to `weights`. global_batch: samples of one optimizer step over all ranks.
  DistributedSampler(int64_t samples, int64_t global_batch, Order order, uint64_t seed, int rank,
                     std::vector<double> weights, int micro_batches = 1);

  // The same batches in other shards.
  void set_weights(std::vector<double> weights);
  const std::vector<double>& weights() const { return weights_; }

  int64_t samples() const;
  int64_t steps_per_epoch() const;  // ceil(samples / global batch)
  int micro_batches() const;

  // `step` counts within the epoch, from 0 to steps_per_epoch() - 1.
  int64_t global_batch_size(int64_t step) const;
  Range micro_batch(int64_t step, int micro) const;  // positions in the order of the epoch, over all ranks
  Range shard(int64_t step, int micro = 0) const;    // this rank's positions in the order of the epoch
  // The position before this rank's shard, in the step's global batch. Its last sample counts as the one before its
  // first.
  int64_t before_shard(int64_t step, int micro = 0) const;
  BatchPlan plan(int64_t micro_batch) const;              // `micro_batch` counts over all epochs, from 0
  int64_t sample(int64_t epoch, int64_t position) const;  // index in the data set
  std::vector<int64_t> local_batch_sizes() const;         // distinct sizes > 0 of this rank's shards, ascending
  int64_t largest_micro_batch() const;                    // samples of it, over all ranks; 0 without samples
  int64_t largest_shard() const;                          // largest of local_batch_sizes(); 1 if there is none

 private:
  int64_t samples_, global_batch_;
  Order order_;
  uint64_t seed_;
  int rank_;
  std::vector<double> weights_;
  int micro_batches_;
};

}  // namespace ddp
