// Element-wise sums on the host, for transports that reduce in this program.
#pragma once

#include "core/bf16.h"
#include "core/dtype.h"

#include <cstddef>
#include <cstdint>
#include <span>

namespace ddp {

// to[i] += from[i] for `count` elements; the spans must not overlap. bf16 is added in f32 and rounded to nearest even.
void add(void* to, const void* from, int64_t count, DType dtype);

// The sum of all terms, in their order: ((t0 + t1) + t2) + ... bf16 is added in f32 and rounded once. `to` may be one
// of the terms; it overlaps no other.
void sum_in_order(std::byte* to, std::span<std::byte* const> terms, int64_t count, DType dtype);

// The same, written over all of the terms.
void sum_everywhere(std::span<std::byte* const> terms, int64_t count, DType dtype);

}  // namespace ddp
