// What single steps take to compute: for the profile of a run, whose spread says how long ranks wait for the slowest.
#pragma once

#include "comm/communicator.h"
#include "ddp/quantiles.h"
#include "train/step/step_result.h"

#include <cstdint>
#include <optional>
#include <vector>

namespace ddp {

// Of this rank's full steps but for the first two of a process. add() does not allocate.
class ComputeTimes {
 public:
  // `batch`: samples of a full step over all ranks.
  explicit ComputeTimes(int64_t batch) : batch_(batch) { ms_.reserve(kMost); }

  void add(const StepResult& step);

  const std::vector<double>& ms() const { return ms_; }  // of equally distant steps, at most kMost
  double mean_data_ms() const { return steps_ > 0 ? data_ms_ / static_cast<double>(steps_) : 0; }

  static constexpr size_t kMost = 2048;

 private:
  static constexpr int64_t kWarmUp = 2;

  int64_t batch_, seen_ = 0, steps_ = 0, every_ = 1;
  double data_ms_ = 0;  // sum
  std::vector<double> ms_;
};

struct ComputeSpread {
  double median_ms = 0;          // of the rank with the largest
  std::vector<Quantile> spread;  // of all ranks' times, each over the median of its rank
};

// Of all ranks; equal on all. None: no rank has times above 0. Collective.
std::optional<ComputeSpread> spread_over_ranks(const std::vector<double>& mine, Communicator& communicator);

}  // namespace ddp
