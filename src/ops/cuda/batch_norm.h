// Batch normalisation on the GPU, as ops/batch_norm.h says: dense activations in f32 or bf16; sums, statistics and
// arithmetic in f32. All sums are taken in an order that follows from the shape.
#pragma once

#include "ops/batch_norm.h"
#include "ops/cuda/context.h"

#include <memory>
#include <span>

namespace ddp {

std::unique_ptr<BatchNorm> make_batch_norm(CudaContext& context, const BatchNormDesc& desc,
                                           std::span<const int64_t> batch_sizes);

}  // namespace ddp
