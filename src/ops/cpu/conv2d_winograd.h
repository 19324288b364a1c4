// 3x3 convolutions of stride 1 in bf16 by Winograd's F(2x2, 3x3) (Lavin and Gray, "Fast algorithms for convolutional
// neural networks", 2015): 16 multiplications for four outputs instead of 36. Transformed inputs and weights are
// rounded to bf16, which about doubles the rounding error of the direct algorithm; F(4x4, 3x3) would lose too much. For
// processors with AVX512_BF16, activations in channels(16) and multiples of 32 channels.
#pragma once

#include "ops/conv2d.h"
#include "ops/cpu/dnnl_scratch.h"
#include "ops/cpu/parallel.h"

#include <cstdint>
#include <memory>

namespace ddp {

// A function of the shape and the processor alone. n samples must have enough tiles to pay for reading the weights.
bool suits_bf16_winograd(const Conv2dDesc& desc, int64_t n);

// Forward and input gradient this way where n samples suit it; all else by `fallback`, which reads and writes
// channels(16).
std::unique_ptr<Conv2d> make_bf16_winograd(const Workers& workers, std::shared_ptr<Scratch> scratch,
                                           const Conv2dDesc& desc, std::unique_ptr<Conv2d> fallback);

}  // namespace ddp
