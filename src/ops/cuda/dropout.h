// Dropout on the GPU, as ops/dropout.h says.
#pragma once

#include "ops/cuda/context.h"
#include "ops/ops.h"

namespace ddp {

void dropout(CudaContext& context, const Dropout& dropout, const Tensor& x, const DeviceBatch& batch, const Tensor& y);

}  // namespace ddp
