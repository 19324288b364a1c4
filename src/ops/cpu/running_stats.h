// The update of running statistics on the CPU (ops/batch_norm.h).
#pragma once

#include "ops/batch_norm.h"

#include <memory>
#include <span>

namespace ddp {

std::unique_ptr<RunningStats> make_cpu_running_stats(std::span<const RunningStatsSpan> layers);

}  // namespace ddp
