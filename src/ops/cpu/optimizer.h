// The update of the weights on the CPU, as ops/optimizer.h says; with lars, after a pass for the norms of all tensors.
#pragma once

#include "ops/cpu/parallel.h"
#include "ops/optimizer.h"

#include <memory>
#include <span>

namespace ddp {

std::unique_ptr<OptimizerOp> make_cpu_optimizer(const Workers& workers, const OptimizerDesc& desc,
                                                std::span<const OptimizerTensor> tensors);

}  // namespace ddp
