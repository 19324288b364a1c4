// Dropout (Srivastava et al., 2014), inverted: y = x / (1 - rate) where a value is kept, else 0. What is kept is a pure
// function of (seed, epoch, sample, layer, element), so neither ranks nor batches nor formats change it:
//
//   random = philox4x32({e / 4, sample id, epoch, Operation::dropout + 256 * layer}, seed).word[e % 4]
//   kept   = random >= rate * 2^32                         e: the element's place in its sample, in the order h, w, c
#pragma once

#include <cstdint>

namespace ddp {

struct Dropout {
  uint64_t seed = 0;
  uint32_t layer = 0;               // tells layers apart; below 2^24
  float rate = 0.5f;                // in [0, 1)
  const uint32_t* epoch = nullptr;  // on the device, read when the work runs
};

}  // namespace ddp
