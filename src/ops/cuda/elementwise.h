// Elementwise ops for several files. Contracts: Ops; from_bf16 can also add.
#pragma once

#include "device/tensor.h"
#include "ops/cuda/context.h"
#include "ops/device_batch.h"
#include "ops/gradient.h"
#include "ops/input_transform.h"

#include <cstdint>

namespace ddp {

// Ops::normalize for a batch with a mix.
void normalize_mixed(CudaContext& context, const DeviceBatch& batch, const ImageShape& image, const PixelScale& scale,
                     const Augmentation& augmentation, const Tensor& x);

void to_bf16(CudaContext& context, const float* from, void* to, int64_t count);
void from_bf16(CudaContext& context, const void* from, float* to, int64_t count, Gradient mode);

}  // namespace ddp
