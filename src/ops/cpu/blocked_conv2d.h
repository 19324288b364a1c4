// Convolutions by our kernels, with channels in multiples of 32. In blocks of 16 channels:
//   3x3, stride 1 or 2  Winograd's algorithm. Each format and stride has one or two sizes of tiles; an image has that
//                       with fewer products, for 7x7 outputs 81 in place of 441, with stride 2 225. The error of a
//                       result, as a part of its norm, grows with the tile. f32, and bf16 that is widened to f32:
//                       F(4x4, 3x3) 6e-7, F(7x7, 3x3) 6e-6, less with stride 2. bf16 rounds transformed values:
//                       F(2x2, 3x3) 0.004, for outputs and input gradients; F(4x4, 3x3) 0.011, small beside the noise
//                       of a batch, for weight gradients.
//   1x1 and other 3x3   weight gradients by the direct algorithm, in bf16, and in f32 for small 3x3 outputs.
// f32 needs AVX-512, bf16 needs AVX512_BF16. Where the processor has AMX, bf16 has dense activations and the direct
// algorithm, which is several times faster there than Winograd's with AVX512_BF16:
//   3x3 of stride 1     outputs and input gradients of small images, where oneDNN reads all weights for each sample
//   1x1 and 3x3         weight gradients
#pragma once

#include "ops/cpu/conv2d.h"

#include <cstdint>
#include <memory>
#include <span>

namespace ddp {

// Whether our kernels can use AMX.
bool uses_amx(const DnnlConfig& config);

// Which passes our kernels compute for n samples, if oneDNN's output has the input's format: where they are possible
// and as `config` says. This depends on the shape, the processor, the set of instructions and `config` only.
struct OwnPasses {
  bool all = false;      // forward, weight gradient and input gradient
  bool weights = false;  // weight gradient
  bool operator==(const OwnPasses&) const = default;
};
OwnPasses own_passes(const Workers& workers, const DnnlConfig& config, const Conv2dDesc& desc, int64_t n);

// Computes these passes, and all others by make_dnnl_conv2d(). `batch_sizes` is not empty,
// and all sizes are above 0. The output has the input's format if one pass is ours, else oneDNN's choice.
std::unique_ptr<Conv2d> make_blocked_conv2d(const Workers& workers, const DnnlConfig& config, const Conv2dDesc& desc,
                                            std::span<const int64_t> batch_sizes);

}  // namespace ddp
