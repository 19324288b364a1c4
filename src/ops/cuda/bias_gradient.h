// The gradients of a fused ReLU and of a bias, in one pass over the gradient of the output.
#pragma once

#include "ops/cuda/context.h"
#include "ops/gradient.h"
#include "ops/ops.h"

#include <cstdint>

namespace ddp {

// If y has data, first sets dy to 0 in place where y <= 0. Then, unless dbias is null, sets dbias[c] to the f32 sum of
// dy over all samples and positions, or adds the sum to it. The order of the sum is fixed: the same bits on every run.
// y and dy are dense and 16-byte aligned.
void bias_gradient(CudaContext& context, const Tensor& y, const Tensor& dy, float* dbias, Gradient mode);

// Reserves the workspace of bias_gradient for up to `rows` samples x positions. Call it while plans are made.
void reserve_bias_gradient(CudaContext& context, int64_t rows, int64_t channels);

}  // namespace ddp
