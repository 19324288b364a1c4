// The launchers of ops/functors.h on the CPU; the contracts are those of Ops (ops/ops.h).
#pragma once

#include "device/tensor.h"
#include "ops/cpu/parallel.h"
#include "ops/samples.h"

#include <cstdint>
#include <span>

namespace ddp {

void normalize(const Workers& workers, const Samples& samples, const ImageShape& image, const Tensor& x);
void relu(const Workers& workers, const Tensor& x, const Tensor& y);
void relu_backward(const Workers& workers, const Tensor& y, const Tensor& dy, const Tensor& dx);
void add(const Workers& workers, const float* from, float* to, int64_t count);
void flag_nonfinite(const Workers& workers, const float* values, int64_t count, float mark, float* flag);
void sgd(const Workers& workers, float* w, const float* g, int64_t count, const float* lr, std::span<const float> skip);

}  // namespace ddp
