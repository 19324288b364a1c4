// The norm of gradients, and what to scale them by so that it stays within a limit (ops/ops.h).
#pragma once

#include "ops/cuda/context.h"
#include "ops/gradient.h"

#include <cstdint>

namespace ddp {

void reserve_sum_of_squares(CudaContext& context);  // when plans are made: what it takes of the workspace
void sum_of_squares(CudaContext& context, const float* values, int64_t count, float* sum, Gradient mode);
void clip_scale(CudaContext& context, const float* sum, float limit, float* scale);

}  // namespace ddp
