// Moving values between formats, and the choice of lanes.
#pragma once

#include "device/tensor.h"
#include "ops/cpu/parallel.h"

#include <cstdint>
#include <span>

namespace ddp {

inline int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

// 16 lanes where the processor has them and the largest batch fills them nearly as well as 8.
int choose_lanes(std::span<const int64_t> batch_sizes);

// Whether the values lie as in the dense format: so do blocks of channels that are full, of one position.
bool is_dense(const Tensor& t);

// The same values in another format, another type, or both. Padding becomes 0, or is copied where the format is the
// same.
void reorder(const Workers& workers, const Tensor& from, const Tensor& to);

// From lanes [ceil(n/lanes)][features][lanes] to [n][features], rows `stride` apart.
void to_dense(const Workers& workers, const float* in_lanes, int64_t n, int64_t features, int lanes, float* dense,
              int64_t stride);

}  // namespace ddp
