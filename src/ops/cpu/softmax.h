// Softmax cross-entropy on the CPU (ops/ops.h). Losses are summed over samples in double, in a fixed order.
#pragma once

#include "device/tensor.h"
#include "ops/cpu/parallel.h"
#include "ops/device_batch.h"
#include "ops/gradient.h"

namespace ddp {

// Contract: Ops::softmax_cross_entropy_backward. With null dlogits, only `stats` is computed.
void softmax_cross_entropy(const Workers& workers, const Tensor& logits, const DeviceBatch& batch, float scale,
                           float smoothing, const Tensor* dlogits, float* stats, Gradient mode);

}  // namespace ddp
