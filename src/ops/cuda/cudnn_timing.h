// Selects a plan by its measured time.
#pragma once

#include "ops/cuda/context.h"
#include "ops/cuda/cudnn_plan.h"

#include <cstddef>
#include <cstdint>
#include <span>

namespace ddp::cudnn {

// The index of the fastest plan. `bytes` has the sizes of the plans' operands. Allocates and frees memory for the test
// runs, and waits for the device. Throws Error(Exit::device) if no plan of several runs.
size_t fastest(CudaContext& context, cudnnHandle_t handle, std::span<Plan> plans, std::span<const int64_t> bytes);

}  // namespace ddp::cudnn
