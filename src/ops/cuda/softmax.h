// Softmax cross-entropy on the GPU (ops/ops.h). Sums are f32, in a fixed order.
#pragma once

#include "ops/cuda/context.h"
#include "ops/ops.h"

namespace ddp {

void reserve_softmax(CudaContext& context);  // reserves its workspace; call it while plans are made

// Contract: Ops::softmax_cross_entropy_backward. With null dlogits, only `stats` is computed.
void softmax_cross_entropy(CudaContext& context, const Tensor& logits, const DeviceBatch& batch, float scale,
                           float smoothing, const Tensor* dlogits, float* stats, Gradient mode);

}  // namespace ddp
