// Measures plans as a training step runs them.
#pragma once

#include "ops/cuda/context.h"
#include "ops/cuda/cudnn_plan.h"

#include <cstdint>
#include <span>
#include <vector>

namespace ddp::cudnn {

inline constexpr double kSecondsOfAPass = 0.5;  // to measure all its plans

// The time of a run of each plan, in microseconds; infinity for a plan that fails, and for the last ones after
// `seconds`. `bytes` has the sizes of the plans' operands, of `type`; all have random values. Plans run in a graph.
// Where the operands are larger than the cache (L2), it holds none of them before a run. Allocates and frees memory,
// and waits for the device. Throws Error(Exit::device) if no plan runs.
std::vector<double> measure(CudaContext& context, cudnnHandle_t handle, std::span<Plan> plans,
                            std::span<const int64_t> bytes, DType type, double seconds);

}  // namespace ddp::cudnn
