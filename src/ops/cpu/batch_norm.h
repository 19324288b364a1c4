// Batch normalisation on the CPU, as ops/batch_norm.h says: any format, f32 or bf16; sums are added up in double.
#pragma once

#include "core/dtype.h"
#include "ops/batch_norm.h"
#include "ops/cpu/parallel.h"

#include <cstdint>
#include <memory>
#include <span>

namespace ddp {

std::unique_ptr<BatchNorm> make_cpu_batch_norm(const Workers& workers, DType activations, const BatchNormDesc& desc,
                                               std::span<const int64_t> batch_sizes);

}  // namespace ddp
