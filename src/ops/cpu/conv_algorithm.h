// How a pass of a convolution can be computed: by our kernels or oneDNN's, from factors in bf16 or in f32.
#pragma once

#include "ops/cpu/conv2d.h"

#include <cstdint>
#include <optional>
#include <vector>

namespace ddp {

// Runs keep the number.
struct ConvAlgorithm {
  bool widen = false;                      // DnnlConfig::widen
  OwnKernels own = OwnKernels::suggested;  // not `suggested`, but for the number 0: not measured

  bool has_our_outputs() const { return own == OwnKernels::all; }  // and our input gradients
  int64_t number() const;
  static std::optional<ConvAlgorithm> of(int64_t number);  // nullopt: there is none
  bool operator==(const ConvAlgorithm&) const = default;
};

// The algorithms that this rank has for n samples, the default first.
std::vector<ConvAlgorithm> conv_algorithms(const Workers& workers, const DnnlConfig& config, const Conv2dDesc& desc,
                                           int64_t n);

// `config` for an algorithm and n samples.
DnnlConfig config_of(const Workers& workers, const DnnlConfig& config, const Conv2dDesc& desc, int64_t n,
                     const ConvAlgorithm& algorithm);

}  // namespace ddp
