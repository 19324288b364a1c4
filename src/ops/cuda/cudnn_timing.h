// Chooses among plans by trying them.
#pragma once

#include "ops/cuda/context.h"
#include "ops/cuda/cudnn_plan.h"

#include <cstddef>
#include <cstdint>
#include <span>

namespace ddp::cudnn {

// The position of the plan that runs fastest on memory allocated for that and freed again. `bytes` has the size of each
// of the plans' operands. Waits for the device.
size_t fastest(CudaContext& context, cudnnHandle_t handle, std::span<Plan> plans, std::span<const int64_t> bytes);

}  // namespace ddp::cudnn
