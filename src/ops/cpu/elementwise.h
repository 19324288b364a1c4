// The elementwise ops that other ops of the CPU use too.
#pragma once

#include "device/tensor.h"
#include "ops/cpu/parallel.h"
#include "ops/device_batch.h"
#include "ops/gradient.h"
#include "ops/input_transform.h"

namespace ddp {

// Ops::normalize for a batch with a mix.
void normalize_mixed(const Workers& workers, const DeviceBatch& batch, const ImageShape& image, const PixelScale& scale,
                     const Augmentation& augmentation, const Tensor& x);

// Zeroes the channels past c.
void clear_padded_channels(const Workers& workers, const Tensor& t);  // activation.cpp

// sums[c] = the sum of dy over samples and positions, or adds it.
void sum_all_channels(const Workers& workers, const Tensor& dy, float* sums, Gradient mode);  // scale.cpp

void relu(const Workers& workers, const Tensor& x, const Tensor& y);                              // Ops::relu
void relu_backward(const Workers& workers, const Tensor& y, const Tensor& dy, const Tensor& dx);  // Ops::relu_backward

}  // namespace ddp
