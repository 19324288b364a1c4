// What the measured convolutions of a rank say of later ones: whether factors in f32 or those of the activations in
// bf16 are much faster on this processor.
#pragma once

#include "ops/cpu/conv_algorithm.h"
#include "ops/measuring.h"

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

namespace ddp {

// For algorithms with oneDNN's outputs (0) and with ours (1), as these have other numbers of multiplications:
// ConvAlgorithm::widen of the factors that were much faster, or none.
using FasterFactors = std::array<std::optional<bool>, 2>;

class FactorTimes {
 public:
  // Counts a pass for which both kinds of factors were measured.
  void add(const MeasuredPass& pass);

  FasterFactors faster() const;

  // For a pass that is not measured: the number of the algorithm that has the outputs of the first one, the default,
  // and the factors that were much faster. 0, the default, if there is none.
  int64_t guess(const std::vector<ConvAlgorithm>& algorithms) const;

 private:
  // Microseconds of the fastest ones, by has_our_outputs() and widen.
  std::array<std::array<double, 2>, 2> sums_{};
};

}  // namespace ddp
