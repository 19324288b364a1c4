#include "app/run/samplers.h"

#include "core/error.h"
#include "ddp/balance.h"

#include <algorithm>
#include <numeric>

namespace ddp {

std::vector<double> weights_of_ranks(const BatchConfig& batch, int world) {
  const std::vector<double>& weights = batch.rank_weights;
  if (weights.empty()) return std::vector<double>(world, 1.0);
  require(static_cast<int>(weights.size()) == world, Exit::usage,
          "--rank-weights has {} weights, but there are {} ranks; give one for each", weights.size(), world);
  return weights;
}

bool fit(const BalanceState& balance, const DistributedSampler& train) {
  const std::vector<int64_t>& shares = balance.shares;
  const int64_t samples = train.largest_micro_batch(), world = std::ssize(train.weights());
  return std::ssize(shares) == world && std::reduce(shares.begin(), shares.end()) == samples &&
         std::ranges::max(shares) <= kLargestShare * samples / world;
}

// Evaluation and PreciseBn use the batch size of a micro-batch of training.
Samplers make_samplers(const BatchConfig& batch, int micro_batches, uint64_t seed, bool statistics,
                       const Datasets& data, int rank, const std::vector<double>& weights) {
  const int64_t micro_batch = (batch.size + micro_batches - 1) / micro_batches;
  const auto sequential = [&](int64_t samples) {
    return DistributedSampler(samples, micro_batch, Order::sequential, seed, rank, weights);
  };
  Samplers samplers{
      .train = DistributedSampler(data.train->size(), batch.size, Order::shuffled, seed, rank, weights, micro_batches),
      .test = {},
      .statistics = {},
      .balanced = batch.balanced && weights.size() > 1};
  if (data.test) samplers.test = sequential(data.test->size());
  if (data.test && statistics) samplers.statistics = sequential(std::min(PreciseBn::kSamples, data.train->size()));
  return samplers;
}

}  // namespace ddp
