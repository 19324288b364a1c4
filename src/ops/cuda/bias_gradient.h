// The gradient of a bias, and before it that of the ReLU behind it, in one pass over the gradient of the output.
#pragma once

#include "ops/cuda/context.h"
#include "ops/gradient.h"
#include "ops/ops.h"

#include <cstdint>

namespace ddp {

// Where y has data: dy *= (y > 0), in place. Then, unless dbias is null, dbias[c] becomes, or grows by, the sum of dy
// over all samples and positions, in f32. The order of the sum is fixed: the same bits on every run. y and dy are
// 16-byte aligned.
void bias_gradient(CudaContext& context, const Tensor& y, const Tensor& dy, float* dbias, Gradient mode);

// To be called while plans are made: the workspace that bias_gradient needs for up to `rows` samples x positions.
void reserve_bias_gradient(CudaContext& context, int64_t rows, int64_t channels);

}  // namespace ddp
