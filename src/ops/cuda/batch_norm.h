// Batch normalisation on the GPU (ops/batch_norm.h), for dense activations in f32 or bf16. Sums, statistics and
// arithmetic are f32. The order of all sums depends on the shape only.
#pragma once

#include "ops/batch_norm.h"
#include "ops/cuda/context.h"

#include <memory>
#include <span>

namespace ddp {

std::unique_ptr<BatchNorm> make_batch_norm(CudaContext& context, const BatchNormDesc& desc,
                                           std::span<const int64_t> batch_sizes);

}  // namespace ddp
