#pragma once

#include "device/tensor.h"
#include "ops/samples.h"

#include <cstdint>

namespace ddp {

// The contract is that of Ops::softmax_cross_entropy_backward; without dlogits only the statistics.
void softmax_cross_entropy(const Tensor& logits, const Samples& samples, float scale, const Tensor* dlogits,
                           float* stats);

}  // namespace ddp
