// Sums on the host, for transports that add themselves.
#pragma once

#include "core/bf16.h"
#include "core/dtype.h"

#include <cstdint>

namespace ddp {

// to[i] += from[i]; the spans do not overlap. bf16 is added in f32.
void add(void* to, const void* from, int64_t count, DType dtype);

}  // namespace ddp
