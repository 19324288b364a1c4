// The algorithms of convolutions on the CPU, chosen by their times: for each pass, our kernels or oneDNN's, from
// factors in bf16 or in f32. Which is the fastest depends on the processor as much as on the shape: some processors
// multiply pairs of bf16 values no faster than f32 values.
#pragma once

#include "core/stopwatch.h"
#include "ops/cpu/conv_algorithm.h"
#include "ops/measuring.h"

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

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

  void add_factors(const MeasuredPass& pass);
  // Whether widened factors (true) or those of the activations (false) were much faster; none: neither.
  // For algorithms with oneDNN's outputs (0) and with ours (1): these have other numbers of multiplications.
  std::array<std::optional<bool>, 2> faster_factors() const;
  // The default, or what is like it with factors that were much faster.
  int64_t guess(const std::vector<ConvAlgorithm>& algorithms) const;
  Choice measure(const Workers& workers, const DnnlConfig& config, const Conv2dDesc& desc, int64_t n);

  Measuring measuring_;
  std::map<std::string, int64_t> fastest_;  // by the name of a pass
  std::optional<Stopwatch> since_first_;    // since the first measurement
  std::array<std::array<double, 2>, 2>
      of_factors_{};  // microseconds of the fastest ones, by has_our_outputs() and widen
};

}  // namespace ddp
