// Gradient norm and clip factor on the CPU. The contracts are those of Ops (ops/ops.h).
#pragma once

#include "ops/cpu/parallel.h"
#include "ops/gradient.h"

#include <cstdint>

namespace ddp {

void sum_of_squares(const Workers& workers, const float* values, int64_t count, float* sum, Gradient mode);
void clip_scale(const float* sum, float limit, float* scale);

}  // namespace ddp
