// The elementwise ops that other ops of the CPU use too.
#pragma once

#include "device/tensor.h"
#include "ops/cpu/parallel.h"

namespace ddp {

void relu(const Workers& workers, const Tensor& x, const Tensor& y);                              // Ops::relu
void relu_backward(const Workers& workers, const Tensor& y, const Tensor& dy, const Tensor& dx);  // Ops::relu_backward

}  // namespace ddp
