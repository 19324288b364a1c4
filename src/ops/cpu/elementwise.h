// Elementwise operations on the CPU. Contracts: class Ops (ops/ops.h).
#pragma once

#include "device/tensor.h"
#include "ops/cpu/parallel.h"
#include "ops/device_batch.h"
#include "ops/gradient.h"

#include <cstdint>

namespace ddp {

void normalize(const Workers& workers, const DeviceBatch& batch, const ImageShape& image, const Tensor& x);
void relu(const Workers& workers, const Tensor& x, const Tensor& y);
void relu_backward(const Workers& workers, const Tensor& y, const Tensor& dy, const Tensor& dx);
void add(const Workers& workers, const Tensor& a, const Tensor& b, const Tensor& y);

void flag_nonfinite(const Workers& workers, const float* values, int64_t count, float mark, float* flag);
void copy_or_add(const Workers& workers, const float* from, float* to, int64_t count, Gradient mode);
void to_bf16(const Workers& workers, const float* from, void* to, int64_t count);
void from_bf16(const Workers& workers, const void* from, float* to, int64_t count);

}  // namespace ddp
