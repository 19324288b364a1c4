// Gradient norm and clip factor on the GPU. The contracts are those of Ops (ops/ops.h).
#pragma once

#include "ops/cuda/context.h"
#include "ops/gradient.h"

#include <cstdint>

namespace ddp {

void reserve_sum_of_squares(CudaContext& context);  // reserves its workspace; call it while plans are made
void sum_of_squares(CudaContext& context, const float* values, int64_t count, float* sum, Gradient mode);
void clip_scale(CudaContext& context, const float* sum, float limit, float* scale);

}  // namespace ddp
