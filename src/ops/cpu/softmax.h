// Softmax cross-entropy on the CPU, as ops/ops.h says; the sums are in double, in a fixed order.
#pragma once

#include "device/tensor.h"
#include "ops/cpu/parallel.h"
#include "ops/gradient.h"
#include "ops/samples.h"

namespace ddp {

// The contract is that of Ops::softmax_cross_entropy_backward; without dlogits only the statistics.
void softmax_cross_entropy(const Workers& workers, const Tensor& logits, const Samples& samples, float scale,
                           float smoothing, const Tensor* dlogits, float* stats, Gradient mode);

}  // namespace ddp
