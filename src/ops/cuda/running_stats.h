// The update of running statistics on the GPU (ops/batch_norm.h): one kernel for all layers.
#pragma once

#include "ops/batch_norm.h"
#include "ops/cuda/context.h"

#include <memory>
#include <span>

namespace ddp {

std::unique_ptr<RunningStats> make_running_stats(CudaContext& context, std::span<const RunningStatsSpan> layers);

}  // namespace ddp
