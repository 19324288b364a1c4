// Elementwise operations on the GPU. Contracts: class Ops (ops/ops.h); from_bf16 can also add. Activations are dense,
// in f32 or bf16; parameters and their gradients are f32.
#pragma once

#include "ops/cuda/context.h"
#include "ops/gradient.h"
#include "ops/ops.h"

#include <cstdint>

namespace ddp {

void normalize(CudaContext& context, const DeviceBatch& batch, const ImageShape& image, const Tensor& x);
void relu(CudaContext& context, const Tensor& x, const Tensor& y);
void relu_backward(CudaContext& context, const Tensor& y, const Tensor& dy, const Tensor& dx);
void add(CudaContext& context, const Tensor& a, const Tensor& b, const Tensor& y);

void flag_nonfinite(CudaContext& context, const float* values, int64_t count, float mark, float* flag);
void copy_or_add(CudaContext& context, const float* from, float* to, int64_t count, Gradient mode);
void to_bf16(CudaContext& context, const float* from, void* to, int64_t count);
void from_bf16(CudaContext& context, const void* from, float* to, int64_t count, Gradient mode);

}  // namespace ddp
