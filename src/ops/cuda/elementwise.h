// The conversions that convolutions and linear layers use too. Contracts: Ops; from_bf16 can also add.
#pragma once

#include "ops/cuda/context.h"
#include "ops/gradient.h"

#include <cstdint>

namespace ddp {

void to_bf16(CudaContext& context, const float* from, void* to, int64_t count);
void from_bf16(CudaContext& context, const void* from, float* to, int64_t count, Gradient mode);

}  // namespace ddp
