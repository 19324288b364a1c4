// 3x3 convolutions of stride 1 in bf16 by Winograd's F(2x2, 3x3) (Lavin and Gray, "Fast algorithms for convolutional
// neural networks", 2015): 16 multiplications for four outputs instead of 36.
//
// Transformed inputs and weights are rounded to bf16. This about doubles the rounding error of the direct algorithm;
// the error of F(4x4, 3x3) would be too large. Needs AVX512_BF16, activations in blocks of 16 channels, and numbers of
// channels that are multiples of 32.
#pragma once

#include "device/scratch.h"
#include "ops/conv2d.h"
#include "ops/cpu/parallel.h"

#include <cstdint>
#include <memory>

namespace ddp {

// Whether this algorithm is possible and faster for n samples. This depends on the shape and the processor only. Few
// tiles do not pay for reading the transformed weights.
bool suits_bf16_winograd(const Conv2dDesc& desc, int64_t n);

// Computes forward and input gradient with Winograd's algorithm if suits_bf16_winograd, and everything else with
// `fallback`, which reads and writes blocks of 16 channels.
std::unique_ptr<Conv2d> make_bf16_winograd(const Workers& workers, std::shared_ptr<Scratch> scratch,
                                           const Conv2dDesc& desc, std::unique_ptr<Conv2d> fallback);

}  // namespace ddp
