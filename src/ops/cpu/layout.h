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

void reorder(const Workers& workers, const Tensor& from, const Tensor& to);

// Between [n][features], rows `stride` apart, and lanes [ceil(n/lanes)][features][lanes]; lanes past n become 0.
void to_lanes(const Workers& workers, const float* dense, int64_t n, int64_t features, int lanes, float* to);
void to_dense(const Workers& workers, const float* in_lanes, int64_t n, int64_t features, int lanes, float* dense,
              int64_t stride);

}  // namespace ddp
