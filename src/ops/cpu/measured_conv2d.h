// The algorithms of convolutions on the CPU, chosen by their times: for each pass, our kernels or oneDNN's, from
// factors in bf16 or in f32. Which is the fastest depends on the processor as much as on the shape: some processors
// multiply pairs of bf16 values no faster than f32 values.
#pragma once

#include "core/stopwatch.h"
#include "ops/cpu/factor_times.h"
#include "ops/measuring.h"

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>

namespace ddp {

// Chooses the algorithms of the convolutions of a rank.
class ConvChooser {
 public:
  explicit ConvChooser(const Measuring& measuring) : measuring_(measuring) {}

  // make_blocked_conv2d() with the algorithm of each pass that is the fastest for the largest batch, or nearly so.
  // Convolutions without a weight gradient, as those of inference, and those that nothing is known of have the default.
  // Collective for convolutions with a weight gradient: rank 0 decides, and a rank that lacks its algorithm has the
  // default.
  std::unique_ptr<Conv2d> make(const Workers& workers, const DnnlConfig& config, const Conv2dDesc& desc,
                               std::span<const int64_t> batch_sizes);

 private:
  using Choice = std::array<int64_t, 3>;  // ConvAlgorithm::number of forward pass, weight and input gradient

  Choice measure(const Workers& workers, const DnnlConfig& config, const Conv2dDesc& desc, int64_t n);

  Measuring measuring_;
  std::map<std::string, int64_t> fastest_;  // by the name of a pass
  std::optional<Stopwatch> since_first_;    // since the first measurement
  FactorTimes factors_;                     // of wide convolutions
};

}  // namespace ddp
