// The convolution implementations on the CPU. Our kernels for the batch-interleaved format are faster if the number of
// channels is small or not a multiple of 16. For multiples of 16, and in bf16, the kernels of blocked_conv2d.h
// and oneDNN are faster. Dense convolutions are matrix products for 1 x 1 windows in f32, our kernels if they are
// depthwise, and oneDNN's otherwise.
#pragma once

#include "device/scratch.h"
#include "ops/conv2d.h"
#include "ops/cpu/parallel.h"

#include <cstdint>
#include <memory>
#include <span>

namespace ddp {

// Which passes our kernels of blocked_conv2d.h compute, where they are possible.
enum class OwnKernels : uint8_t { suggested, none, weights, all };  // suggested: by the shape

struct DnnlConfig {
  DType activations = DType::f32;    // bf16 without `widen` requires multiplies_bf16()
  bool winograd = true;              // allows Winograd's algorithm
  std::shared_ptr<Scratch> scratch;  // shared by the convolutions of a rank; null: the convolution has its own
  bool amx = true;                   // allows our bf16 kernels for AMX, in place of Winograd's
  bool widen = false;                // bf16: converts activations to f32 and multiplies these

  OwnKernels own = OwnKernels::suggested;

  DType factors() const { return widen ? DType::f32 : activations; }  // the type of products
};

bool suits_dnnl(const Conv2dDesc& desc);

// The samples for which a call of the weight gradient reads about twice the bytes of the gradient, to which it adds. A
// power of two.
int64_t weight_slice(const Conv2dDesc& desc, DType activations);

// Whether oneDNN and our kernels multiply bf16 values on this processor: they need AVX512_BF16, and a set of kernels
// for AVX-512.
bool multiplies_bf16(const Workers& workers);

// DnnlConfig::widen where there is no choice.
inline bool must_widen(const Workers& workers, DType activations) {
  return activations == DType::bf16 && !multiplies_bf16(workers);
}

// Whether our kernels for AMX can run: has_amx(), and oneDNN has AMX too. Else it would not have their format.
bool offers_amx();

// Whether oneDNN's Winograd algorithm is faster for n samples in f32. This depends on the shape only.
bool suits_winograd(const Conv2dDesc& desc, int64_t n);

// Input and output are batch-interleaved f32. Accepts all batch sizes.
std::unique_ptr<Conv2d> make_lane_conv2d(const Workers& workers, const Conv2dDesc& desc);
// Accepts an input of any format, and reorders it if oneDNN needs another one. The output has oneDNN's preferred
// format, or the dense one if desc.dense. The first use after a bind packs the weights.
std::unique_ptr<Conv2d> make_dnnl_conv2d(const Workers& workers, const DnnlConfig& config, const Conv2dDesc& desc,
                                         std::span<const int64_t> batch_sizes);

// Whether a convolution is a matrix product over samples and positions.
bool is_product(const Conv2dDesc& desc);
// Input and output are dense f32. Accepts all batch sizes up to the largest of batch_sizes.
std::unique_ptr<Conv2d> make_gemm_conv2d(const Workers& workers, const std::shared_ptr<Scratch>& scratch,
                                         const Conv2dDesc& desc, std::span<const int64_t> batch_sizes);

bool is_depthwise(const Conv2dDesc& desc);
// Input and output are dense. Accepts all batch sizes up to the largest of batch_sizes.
std::unique_ptr<Conv2d> make_depthwise_conv2d(const Workers& workers, const std::shared_ptr<Scratch>& scratch,
                                              DType activations, const Conv2dDesc& desc,
                                              std::span<const int64_t> batch_sizes);

}  // namespace ddp
