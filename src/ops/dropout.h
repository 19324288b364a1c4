// Inverted dropout (Srivastava et al., 2014): y = x / (1 - rate) for kept values, x * 0 for dropped values. The mask is
// a pure function of (seed, epoch, sample, layer, element). It does not depend on the number of ranks, the batch size
// or the format:
//
//   random = philox4x32({e / 4, sample id, epoch, Operation::dropout + 256 * layer}, seed).word[e % 4]
//   kept   = random >= rate * 2^32                         e: index of the element in its sample, in the order h, w, c
//
// With `whole_sample` the mask has one value for each sample, e = 0: stochastic depth (Huang et al., 2016), as
// torchvision's StochasticDepth with mode "row".
#pragma once

#include <cstdint>

namespace ddp {

struct Dropout {
  uint64_t seed = 0;
  uint32_t layer = 0;               // index of the layer, below 2^24
  float rate = 0.5f;                // share of dropped values, in [0, 1)
  const uint32_t* epoch = nullptr;  // in device memory; read when the work runs
  bool whole_sample = false;
};

}  // namespace ddp
