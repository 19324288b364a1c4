// Convolutions by our kernels, with channels in multiples of 32. In blocks of 16 channels:
//   3x3 of stride 1    Winograd's algorithm. f32: F(4x4, 3x3), 36 multiplications for 16 outputs instead of 144. bf16
//                      rounds transformed values: F(2x2, 3x3) about doubles the error of the direct algorithm, so
//                      outputs and input gradients have it, with 16 multiplications for 4 outputs instead of 36. The
//                      error of F(4x4, 3x3), 0.011 of the norm, is small beside the noise of a batch: weight gradients
//                      have it.
//   1x1 and other 3x3  weight gradients by the direct algorithm, in bf16, and in f32 for small 3x3 outputs.
// f32 needs AVX-512, bf16 needs AVX512_BF16. Where the processor has AMX, bf16 has dense activations and the direct
// algorithm, which is several times faster there than Winograd's with AVX512_BF16:
//   3x3 of stride 1    outputs and input gradients of small images, where oneDNN reads all weights for each sample
//   1x1 and 3x3        weight gradients
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
