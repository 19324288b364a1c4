// Dropout on the GPU (ops/dropout.h). Contract: Ops::dropout, for dense activations.
#pragma once

#include "ops/cuda/context.h"
#include "ops/ops.h"

namespace ddp {

void dropout(CudaContext& context, const Dropout& dropout, const Tensor& x, const DeviceBatch& batch, const Tensor& y);

}  // namespace ddp
