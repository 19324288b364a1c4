// The optimizer step on the GPU (ops/optimizer.h): one kernel per part. lars runs two kernels before it: one for the
// norms of all tensors and one for their rate factors.
#pragma once

#include "ops/cuda/context.h"
#include "ops/optimizer.h"

#include <memory>
#include <span>

namespace ddp {

std::unique_ptr<OptimizerOp> make_optimizer(CudaContext& context, const OptimizerDesc& desc,
                                            std::span<const OptimizerTensor> tensors);

}  // namespace ddp
