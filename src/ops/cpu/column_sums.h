// The gradients of a fused ReLU and of a bias, for dense activations.
#pragma once

#include "device/tensor.h"
#include "ops/cpu/parallel.h"
#include "ops/gradient.h"

#include <cstdint>

namespace ddp {

// Floats of scratch memory that column_gradient needs.
int64_t column_gradient_floats(int64_t channels);

// If y has data, first sets dy to 0 in place where y <= 0. Then, unless dbias is null, sets dbias[c] to the sum of dy
// over all samples and positions, or adds that. The order of the sum depends on the shape only.
void column_gradient(const Workers& workers, const Tensor& y, const Tensor& dy, float* dbias, Gradient mode,
                     float* scratch);

}  // namespace ddp
