#include "train/observers/compute_times.h"

#include <algorithm>

namespace ddp {

// Where the memory is full, each second time goes, and from then on half as many steps are recorded.
void ComputeTimes::add(const StepResult& step) {
  if (++seen_ <= kWarmUp || step.samples != batch_ || !step.skipped.empty()) return;
  data_ms_ += step.times.data;
  if (steps_++ % every_ != 0) return;
  if (ms_.size() == kMost) {
    for (size_t i = 0; i < kMost / 2; ++i) ms_[i] = ms_[2 * i];
    ms_.resize(kMost / 2);
    every_ *= 2;
  }
  ms_.push_back(step.times.compute);
}

// Each rank gives equally many order statistics of its times, from the least to the largest.
std::optional<ComputeSpread> spread_over_ranks(const std::vector<double>& mine, Communicator& communicator) {
  const int64_t world = communicator.size(), values = std::clamp<int64_t>((1 << 16) / world, 16, 1024);
  std::vector<double> all(static_cast<size_t>(world * (values + 1)));
  const std::span of_mine = std::span(all).subspan(static_cast<size_t>(communicator.rank() * (values + 1)));
  if (!mine.empty()) {
    const std::vector<Quantile> quantiles = quantiles_of(mine);
    std::vector<double> sorted = mine;
    std::ranges::sort(sorted);
    const double median = value_at(quantiles, 0.5);
    of_mine[0] = median;
    for (int64_t i = 0; median > 0 && i < values; ++i)
      of_mine[static_cast<size_t>(i + 1)] =
          sorted[static_cast<size_t>(i) * (sorted.size() - 1) / static_cast<size_t>(values - 1)] / median;
  }
  communicator.all_reduce_host(all);
  ComputeSpread result;
  std::vector<double> shares;
  for (int64_t rank = 0; rank < world; ++rank) {
    const std::span of_rank =
        std::span(all).subspan(static_cast<size_t>(rank * (values + 1)), static_cast<size_t>(values + 1));
    result.median_ms = std::max(result.median_ms, of_rank[0]);
    if (of_rank[0] > 0) shares.insert(shares.end(), of_rank.begin() + 1, of_rank.end());
  }
  if (shares.empty()) return std::nullopt;
  result.spread = quantiles_of(std::move(shares));
  return result;
}

}  // namespace ddp
