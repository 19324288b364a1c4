// Convolutions in blocks of 16 channels by our kernels, with channels in multiples of 32:
//   3x3 of stride 1    Winograd's algorithm. f32: F(4x4, 3x3), 36 multiplications for 16 outputs instead of 144. bf16:
//                      F(2x2, 3x3), 16 for 4 outputs instead of 36; rounding of transformed values to bf16 about
//                      doubles the error of the direct algorithm, and the error of F(4x4, 3x3) would be too large.
//   1x1 and other 3x3  weight gradients by the direct algorithm, in bf16, and in f32 for small 3x3 outputs.
// f32 needs AVX-512, bf16 needs AVX512_BF16.
#pragma once

#include "ops/cpu/conv2d.h"

#include <cstdint>
#include <memory>
#include <span>

namespace ddp {

// Which passes our kernels compute for n samples: where they are possible and faster. This depends on the shape, the
// processor, the set of instructions and `config` only.
struct OwnPasses {
  bool winograd = false;  // forward and input gradient
  bool weights = false;   // weight gradient
  bool operator==(const OwnPasses&) const = default;
};
OwnPasses own_passes(const Workers& workers, const DnnlConfig& config, const Conv2dDesc& desc, int64_t n);

// Computes these passes, and all else with `fallback`, which is planned for batch_sizes and has the same formats; it
// may be null if nothing is left.
std::unique_ptr<Conv2d> make_blocked_conv2d(const Workers& workers, const DnnlConfig& config, const Conv2dDesc& desc,
                                            std::span<const int64_t> batch_sizes, std::unique_ptr<Conv2d> fallback);

}  // namespace ddp
