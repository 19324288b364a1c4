// The optimizer step on the CPU (ops/optimizer.h). lars needs a second pass before it, for the norms of all tensors.
#pragma once

#include "ops/cpu/parallel.h"
#include "ops/optimizer.h"

#include <memory>
#include <span>

namespace ddp {

std::unique_ptr<OptimizerOp> make_cpu_optimizer(const Workers& workers, const OptimizerDesc& desc,
                                                std::span<const OptimizerTensor> tensors);

}  // namespace ddp
