// The two ways to convolve on a CPU. Own kernels over lanes are best where channels are few or odd; oneDNN where they
// fill its blocks of 16, and wherever activations are bf16.
#pragma once

#include "ops/conv2d.h"
#include "ops/cpu/dnnl_scratch.h"
#include "ops/cpu/parallel.h"

#include <cstdint>
#include <memory>
#include <span>

namespace ddp {

struct DnnlConfig {
  DType activations = DType::f32;    // bf16: where dnnl_offers_bf16()
  bool winograd = true;              // where suits_winograd, or suits_bf16_winograd (conv2d_winograd.h)
  std::shared_ptr<Scratch> scratch;  // of all convolutions of a rank; null: one of its own
};

bool suits_dnnl(const Conv2dDesc& desc);

// Whether oneDNN convolves in bf16 on this processor: 2.6 does where there is AVX-512, fast with AVX512_BF16.
bool dnnl_offers_bf16();

// Whether Winograd's algorithm is the faster one for n samples of f32. A function of the shape alone, so that every
// rank and every run computes the same bits.
bool suits_winograd(const Conv2dDesc& desc, int64_t n);

// Reads lanes, writes lanes; any batch size up to the memory of its tensors. f32 only.
std::unique_ptr<Conv2d> make_lane_conv2d(const Workers& workers, const Conv2dDesc& desc);
// Reads any format (reordering it where oneDNN wants another), writes what oneDNN likes best. Weights are packed at the
// first use after a bind.
std::unique_ptr<Conv2d> make_dnnl_conv2d(const Workers& workers, const DnnlConfig& config, const Conv2dDesc& desc,
                                         std::span<const int64_t> batch_sizes);

}  // namespace ddp
