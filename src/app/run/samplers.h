// The samplers of a rank: for training, for evaluation, and for the batch-norm statistics of an evaluation.
#pragma once

#include "data/dataset.h"
#include "train/trainer.h"

#include <cstdint>
#include <vector>

namespace ddp {

struct BatchConfig {
  static constexpr int64_t kUnknown = int64_t{1} << 40;
  int64_t size = 256;                     // samples of a step, over all ranks and micro-batches
  bool largest = false;                   // as many as fit in memory; until they are known, `size` is kUnknown
  std::vector<double> rank_weights = {};  // relative speed of each rank; empty: equal
  bool balanced = false;                  // the weights follow the measured speeds
};

// --rank-weights, or 1 for each rank. Throws Error(Exit::usage) if the number of weights is not the world size.
std::vector<double> weights_of_ranks(const BatchConfig& batch, int world);

// Whether the shares are those of full micro-batches of `train`, on as many ranks.
bool fit(const BalanceState& balance, const DistributedSampler& train);

// The samplers of this rank. `statistics`: whether evaluations recompute the batch-norm statistics.
Samplers make_samplers(const BatchConfig& batch, int micro_batches, uint64_t seed, bool statistics,
                       const Datasets& data, int rank, const std::vector<double>& weights);

}  // namespace ddp
