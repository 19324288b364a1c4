// The update of the weights on the GPU, as ops/optimizer.h says: one kernel for a part; with lars, one for the norms of
// all tensors and one for their factors before it.
#pragma once

#include "ops/cuda/context.h"
#include "ops/optimizer.h"

#include <memory>
#include <span>

namespace ddp {

std::unique_ptr<OptimizerOp> make_optimizer(CudaContext& context, const OptimizerDesc& desc,
                                            std::span<const OptimizerTensor> tensors);

}  // namespace ddp
