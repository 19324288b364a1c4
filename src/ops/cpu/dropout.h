// Dropout on the CPU (ops/dropout.h), for all formats, in f32 or bf16.
#pragma once

#include "device/tensor.h"
#include "ops/cpu/parallel.h"
#include "ops/device_batch.h"
#include "ops/dropout.h"

namespace ddp {

// Contract: Ops::dropout.
void dropout(const Workers& workers, const Dropout& dropout, const Tensor& x, const DeviceBatch& batch,
             const Tensor& y);

}  // namespace ddp
