// Element-wise sum on the host, for transports that reduce in this program.
#pragma once

#include "core/bf16.h"
#include "core/dtype.h"

#include <cstdint>

namespace ddp {

// to[i] += from[i] for `count` elements; the spans must not overlap. bf16 is added in f32 and rounded to nearest even.
void add(void* to, const void* from, int64_t count, DType dtype);

}  // namespace ddp
