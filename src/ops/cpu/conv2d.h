// The two ways to convolve on a CPU. Own kernels over lanes are best where channels are few or odd; oneDNN where they
// fill its blocks of 16.
#pragma once

#include "ops/conv2d.h"
#include "ops/cpu/parallel.h"

#include <cstdint>
#include <memory>
#include <span>

namespace ddp {

bool suits_dnnl(const Conv2dDesc& desc);

// Reads lanes, writes lanes; any batch size up to the memory of its tensors.
std::unique_ptr<Conv2d> make_lane_conv2d(const Workers& workers, const Conv2dDesc& desc);
// Reads any format (reordering it where oneDNN wants another), writes what oneDNN likes best.
std::unique_ptr<Conv2d> make_dnnl_conv2d(const Workers& workers, const Conv2dDesc& desc,
                                         std::span<const int64_t> batch_sizes);

}  // namespace ddp
