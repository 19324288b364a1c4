// 3x3 convolutions of stride 1 by Winograd's algorithm (Lavin and Gray, "Fast algorithms for convolutional neural
// networks", 2015), for activations in blocks of 16 channels and numbers of channels that are multiples of 32.
//   f32   F(4x4, 3x3): 36 multiplications for 16 outputs instead of 144. Needs AVX-512.
//   bf16  F(2x2, 3x3): 16 multiplications for 4 outputs instead of 36. Needs AVX512_BF16. Transformed values are
//   rounded
//         to bf16, which about doubles the rounding error of the direct algorithm; the error of F(4x4, 3x3) would be
//         too large.
#pragma once

#include "device/scratch.h"
#include "ops/conv2d.h"
#include "ops/cpu/parallel.h"

#include <cstdint>
#include <memory>

namespace ddp {

// Whether these kernels are possible and faster for n samples. This depends on the shape, the processor and the set of
// instructions only.
bool suits_own_winograd(const Workers& workers, DType activations, const Conv2dDesc& desc, int64_t n);

// For batch sizes up to `most`. The output is in blocks of 16 channels. `fallback` computes the batch sizes that do not
// suit, in the same format; it may be null if there are none.
std::unique_ptr<Conv2d> make_winograd_conv2d(const Workers& workers, std::shared_ptr<Scratch> scratch,
                                             DType activations, const Conv2dDesc& desc, int64_t most,
                                             std::unique_ptr<Conv2d> fallback);

}  // namespace ddp
