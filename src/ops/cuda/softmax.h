// Softmax cross-entropy on the GPU, as ops/ops.h says; the sums are in f32, in a fixed order.
#pragma once

#include "ops/cuda/context.h"
#include "ops/ops.h"

namespace ddp {

void reserve_softmax(CudaContext& context);  // when plans are made: what it takes of the workspace

// dlogits null: the loss only.
void softmax_cross_entropy(CudaContext& context, const Tensor& logits, const DeviceBatch& batch, float scale,
                           float smoothing, const Tensor* dlogits, float* stats, Gradient mode);

}  // namespace ddp
